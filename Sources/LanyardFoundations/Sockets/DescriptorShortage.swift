import CLinux
import Dispatch
import Glibc
import Synchronization

/// The process's record of a descriptor shortage (http-connections.md 20.4).
///
/// A caller that gets no descriptor asks for a release: idle connections of all owners are closed, and the caller makes one more attempt.
///
/// The health listener keeps a few descriptors in reserve and gives one up briefly to accept a probe. Another thread that opens a socket at
/// that moment would take it permanently. So sockets are opened one after the other while descriptors are short. Without a shortage this
/// costs one relaxed load for each new connection.
package final class DescriptorShortage: Sendable {
    private struct Reference {
        weak var holder: (any DescriptorHolder)?
    }

    /// A release that is in progress, or none.
    private struct Release {
        var holders: [Reference] = []
        var waiting: [@Sendable (Int) -> Void] = []
        /// Holders that have not finished yet; 0: no release is in progress.
        var left = 0
        var count = 0
    }

    private let isShort = Atomic<Bool>(false)
    /// When a descriptor was missing last; 0: never.
    private let shortAt = Atomic<Int64>(0)
    private let openLock = Guarded(())
    private let state = Guarded(Release())

    /// The process's own: its table of descriptors is one.
    package static let shared = DescriptorShortage()

    /// Whether this is an `errno` of having no descriptor left.
    package static func isCause(of code: CInt) -> Bool { code == EMFILE || code == ENFILE }

    // MARK: Opening

    /// Makes an attempt of the request path to accept or to make a socket. Returns a descriptor, or less than 0 with `errno`.
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
    package func recordShortage() {
        shortAt.store(Instant.now.nanoseconds, ordering: .relaxed)
        isShort.store(true, ordering: .relaxed)
    }

    /// When an attempt failed last for want of descriptors; nil: never.
    package var latestShortage: Instant? {
        let nanoseconds = shortAt.load(ordering: .relaxed)
        return nanoseconds == 0 ? nil : Instant(nanoseconds: nanoseconds)
    }

    /// Gives up a reserved descriptor or takes one back. No other thread opens one during `work`.
    package func exchange(_ work: () -> Void) { openLock.withLock { _ in work() } }

    /// Whether the kernel refuses a new descriptor now.
    package var isExhausted: Bool {
        let probe = open { eventfd(0, CInt(EFD_CLOEXEC)) }
        guard probe >= 0 else { return Self.isCause(of: errno) }
        close(probe)
        return false
    }

    // MARK: Releasing

    /// Asks `holder` in each release, as long as it lives.
    package func add(_ holder: any DescriptorHolder) {
        state.withLock { state in
            state.holders.removeAll { $0.holder == nil }
            state.holders.append(Reference(holder: holder))
        }
    }

    /// Has all holders close the descriptors that they can spare. `done` is called once with the number of freed descriptors, on any
    /// thread, perhaps before this returns. Simultaneous callers share one release.
    package func release(then done: @escaping @Sendable (_ count: Int) -> Void = { _ in }) {
        recordShortage()
        let holders = state.withLock { state -> [any DescriptorHolder]? in
            state.waiting.append(done)
            guard state.left == 0 else { return nil }
            let holders = state.holders.compactMap(\.holder)
            // One more for this call: a holder that finishes at once must not end the release for the others.
            (state.left, state.count) = (holders.count + 1, 0)
            return holders
        }
        guard let holders else { return }
        for holder in holders { holder.releaseDescriptors { [self] count in recordRelease(count) } }
        recordRelease(0)
    }

    /// The same for a thread that may block, until it is done.
    package func releaseAndWait() {
        let done = DispatchSemaphore(value: 0)
        release { _ in done.signal() }
        done.wait()
    }

    private func recordRelease(_ count: Int) {
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

/// An owner of descriptors that it can spare, such as those of idle connections.
package protocol DescriptorHolder: AnyObject, Sendable {
    /// Closes the descriptors that it can spare and calls `done` with their number. On any thread, never blocking. `done` is called once,
    /// perhaps on another thread.
    func releaseDescriptors(then done: @escaping @Sendable (_ count: Int) -> Void)
}
