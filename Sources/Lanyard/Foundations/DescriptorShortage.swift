import CLanyard.Linux
import Dispatch
import Glibc
import Synchronization

/// What the process knows of having run out of descriptors (http-rules.md 20.4).
///
/// A caller that finds none asks for a release: idle connections are closed, whatever they belong to, and then the attempt is made once more.
///
/// Health keeps a few descriptors back and gives one up for a moment to accept a probe: another thread that opens a socket in that
/// moment would take it for good. So sockets are opened one after the other while descriptors are short. Without a shortage this costs a
/// relaxed load for each new connection.
package final class DescriptorShortage: Sendable {
    private struct Reference {
        weak var holder: (any DescriptorHolder)?
    }

    /// A release that is under way, or none.
    private struct Release {
        var holders: [Reference] = []
        var waiting: [@Sendable (Int) -> Void] = []
        /// Holders that have not said yet that they are done; 0: nothing is under way.
        var left = 0
        var count = 0
    }

    private let isShort = Atomic<Bool>(false)
    private let openLock = Guarded(())
    private let state = Guarded(Release())

    /// The process's own: its table of descriptors is one.
    package static let shared = DescriptorShortage()

    /// Whether this is an `errno` of having no descriptor left.
    package static func isCause(of code: CInt) -> Bool { code == EMFILE || code == ENFILE }

    // MARK: Opening

    /// An attempt of the request path to accept or to make a socket: a descriptor, or less than 0 and `errno`.
    package func open(_ attempt: () -> CInt) -> CInt {
        guard isShort.load(ordering: .relaxed) else { return attempt() }
        var code: CInt = 0
        let raw = openLock.withLock { _ in
            let raw = attempt()
            code = errno
            return raw
        }
        if raw >= 0 { isShort.store(false, ordering: .relaxed) }
        errno = code
        return raw
    }

    /// An attempt failed for want of descriptors.
    package func recordShortage() { isShort.store(true, ordering: .relaxed) }

    /// Gives a kept descriptor up, or takes one back, with nobody opening one in between.
    package func exchange(_ work: () -> Void) { openLock.withLock { _ in work() } }

    /// Whether no descriptor can be had now: asks the kernel.
    package var isExhausted: Bool {
        let probe = open { eventfd(0, CInt(EFD_CLOEXEC)) }
        guard probe >= 0 else { return Self.isCause(of: errno) }
        close(probe)
        return false
    }

    // MARK: Releasing

    /// Asks `holder` from now on, as long as it lives.
    package func add(_ holder: any DescriptorHolder) {
        state.withLock { state in
            state.holders.removeAll { $0.holder == nil }
            state.holders.append(Reference(holder: holder))
        }
    }

    /// Has all holders close what they can do without. `done` comes once with how many descriptors that has freed, on any thread, perhaps before
    /// this returns. Several that ask at the same time share one release.
    package func release(then done: @escaping @Sendable (_ count: Int) -> Void = { _ in }) {
        recordShortage()
        let holders = state.withLock { state -> [any DescriptorHolder]? in
            state.waiting.append(done)
            guard state.left == 0 else { return nil }
            let holders = state.holders.compactMap(\.holder)
            // One more for this call, so that a holder that is done at once does not end it for the others.
            (state.left, state.count) = (holders.count + 1, 0)
            return holders
        }
        guard let holders else { return }
        for holder in holders { holder.releaseDescriptors { [self] count in ended(count) } }
        ended(0)
    }

    /// The same for a thread that may block, until it is done.
    package func releaseAndWait() {
        let done = DispatchSemaphore(value: 0)
        release { _ in done.signal() }
        done.wait()
    }

    private func ended(_ count: Int) {
        let (waiting, total) = state.withLock { state -> ([@Sendable (Int) -> Void], Int) in
            state.count += count
            state.left -= 1
            guard state.left == 0 else { return ([], 0) }
            defer { state.waiting = [] }
            return (state.waiting, state.count)
        }
        for done in waiting { done(total) }
    }
}
