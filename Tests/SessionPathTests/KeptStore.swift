import Dispatch
import TestSupport

@testable import LanyardFoundations
@testable import LanyardSessionInterface

/// A store in memory that outlives a session service, and fails when a test says so.
final class KeptStore: SessionStore {
    private let kept = Guarded(StoreContents(fingerprintKey: KeyedHash.newKey()))
    /// So many of the next changes fail.
    private let failures = Guarded(0)
    private let delay = Guarded(Duration.zero)
    private let heldRead = Guarded<HeldRead>(.none)
    private let queue = DispatchQueue(label: "test.store")

    private enum HeldRead {
        case none
        /// The next read is held.
        case expected
        case held(@Sendable (StoredUser?) -> Void, user: String)
        /// It has its result.
        case read(@Sendable () -> Void)
    }

    var contents: StoreContents { kept.withLock { $0 } }
    var isMemoryOnly: Bool { false }

    func fails(_ fails: Bool) { failures.withLock { $0 = fails ? .max : 0 } }

    /// So many changes fail from now on, and then none.
    func fails(times: Int) { failures.withLock { $0 = times } }

    /// How long a change takes from now on.
    func takes(_ delay: Duration) { self.delay.withLock { $0 = delay } }

    /// A change that another process makes.
    func apply(_ change: StoreChange) { _ = kept.withLock { $0.apply(change, now: .now) } }

    /// Contents that an older release has left.
    func edit(_ body: (inout StoreContents) -> Void) { kept.withLock { body(&$0) } }

    /// The held read has its result already; this is what another process changes behind it.
    func editAfterRead(_ body: @escaping @Sendable (inout StoreContents) -> Void) {
        heldRead.withLock { read in
            guard case .held(let reply, let user) = read else { return }
            let result = kept.withLock { contents in
                defer { body(&contents) }
                return contents[user]
            }
            read = .read { reply(result) }
        }
    }

    /// The next read gets no reply until `releaseRead`.
    func holdNextRead() { heldRead.withLock { $0 = .expected } }

    var holdsRead: Bool { heldRead.withLock { if case .held = $0 { true } else { false } } }

    func releaseRead() {
        let held = heldRead.withLock { read in
            defer { read = .none }
            return read
        }
        switch held {
        case .none, .expected: break
        case .held(let reply, let user): reply(contents[user])
        case .read(let reply): reply()
        }
    }

    func read(_ user: String, reply: @escaping @Sendable (Result<StoredUser?, StoreError>) -> Void) {
        let isHeld = heldRead.withLock { read in
            guard case .expected = read else { return false }
            read = .held({ reply(.success($0)) }, user: user)
            return true
        }
        if !isHeld { reply(.success(kept.withLock { $0[user] })) }
    }

    func commit(
        _ change: StoreChange,
        reply: @escaping @Sendable (Result<StoreChange.Verdict, StoreError>) -> Void
    ) {
        let delay = delay.withLock { $0 }
        guard delay > .zero else { return handle(change, reply) }
        queue.asyncAfter(deadline: .now() + .nanoseconds(Int(delay.nanoseconds))) { [self] in handle(change, reply) }
    }

    private func handle(_ change: StoreChange, _ reply: (Result<StoreChange.Verdict, StoreError>) -> Void) {
        let isFailing = failures.withLock { failures in
            guard failures > 0 else { return false }
            failures -= 1
            return true
        }
        guard !isFailing else { return reply(.failure(StoreError(.system(28), message: "full"))) }
        reply(.success(kept.withLock { $0.apply(change, now: .now) }))
    }

    func lock(_ user: String, reply: @escaping @Sendable (StoreLock) -> Void) { reply(.taken) }
    func unlock(_ user: String) {}
}
