import LanyardFoundations

/// Holds back the body of a call, which has the refresh token, until the session has stored that it is about to be sent
/// (refresh-outcomes.md 9). From any thread.
///
/// The transport asks when the service is connected and the head of the request has been written. The session decides
/// once, by `open` or `cancel`.
package final class SendGate: Sendable {
    /// What the transport is told.
    package enum Permission: Equatable, Sendable {
        /// The body may be sent.
        case granted
        /// The body must never be sent.
        case refused
        /// The session has been asked. The closure that came with the question is called when it has decided.
        case pending
    }

    private enum State {
        case unasked
        /// - resume: tells the transport to ask again.
        case asked(resume: @Sendable () -> Void)
        case open, cancelled
    }

    private let state = Guarded(State.unasked)
    private let onAsk: @Sendable () -> Void

    /// - Parameter onAsk: called once, on the thread of the first question.
    package init(onAsk: @escaping @Sendable () -> Void) { self.onAsk = onAsk }

    /// Asks whether the body may be sent.
    ///
    /// - Parameter resume: called once if the result is `pending`, on the thread of the decision. It replaces that of an
    ///   earlier question.
    package func ask(_ resume: @escaping @Sendable () -> Void) -> Permission {
        let (permission, isFirst) = state.withLock { state -> (Permission, Bool) in
            switch state {
            case .unasked:
                state = .asked(resume: resume)
                return (.pending, true)
            case .asked:
                state = .asked(resume: resume)
                return (.pending, false)
            case .open: return (.granted, false)
            case .cancelled: return (.refused, false)
            }
        }
        if isFirst { onAsk() }
        return permission
    }

    /// The body may be sent.
    package func open() { decide(.open) }

    /// The body will not be sent. A later `open` changes nothing.
    package func cancel() { decide(.cancelled) }

    private func decide(_ decision: State) {
        let resume = state.withLock { state -> (@Sendable () -> Void)? in
            switch state {
            case .unasked:
                state = decision
                return nil
            case .asked(let resume):
                state = decision
                return resume
            case .open, .cancelled: return nil
            }
        }
        resume?()
    }

    /// The transport has asked, and waits for the decision.
    package var isAwaited: Bool {
        state.withLock { if case .asked = $0 { true } else { false } }
    }

    /// The session has given the call up before its body was sent.
    package var isCancelled: Bool {
        state.withLock { if case .cancelled = $0 { true } else { false } }
    }
}
