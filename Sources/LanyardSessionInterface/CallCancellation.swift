import LanyardFoundations

/// Ends a call that is not wanted any more: the other call of its attempt has brought the result (refresh.md 17). From any thread.
package final class CallCancellation: Sendable {
    private enum State {
        case open(onCancel: (@Sendable () -> Void)?)
        case cancelled
    }

    private let state = Guarded(State.open(onCancel: nil))

    package init() {}

    /// The call has been ended. Its result does not count.
    package var isCancelled: Bool { state.withLock { if case .cancelled = $0 { true } else { false } } }

    /// The transport's part of the call begins.
    ///
    /// - Parameter onCancel: ends it; called once, on the thread of `cancel`. It replaces that of an earlier part.
    /// - Returns: false: the call has been ended, and nothing may be sent.
    package func observe(_ onCancel: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            guard case .open = state else { return false }
            state = .open(onCancel: onCancel)
            return true
        }
    }

    /// Ends the call. A second time changes nothing.
    package func cancel() {
        let onCancel = state.withLock { state -> (@Sendable () -> Void)? in
            guard case .open(let onCancel) = state else { return nil }
            state = .cancelled
            return onCancel
        }
        onCancel?()
    }
}
