import Dispatch
import TestSupport
import Testing

@testable import LanyardFoundations

/// Which thread takes which key.
@Suite struct BlockingCallsTests {
    /// What a test tells the calls, which are made before it knows them.
    private final class Script: Sendable {
        let calls = Guarded<BlockingCalls<String, String>?>(nil)
        let (warm, open, joined) = (Milestone(), Milestone(), Milestone())
        let (warming, hung, answered) = (Tally(), Tally(), Tally())
    }

    /// Between two of its keys a thread is not idle, and its next key is in the order still. A key that comes then counts one thread more
    /// than it should, and the idle one has no signal.
    @Test(
        "a key that comes while a busy thread has its next one before it does not wait until that thread is free again")
    func betweenKeys() async throws {
        let script = Script()
        defer { script.open.set() }
        let calls = BlockingCalls<String, String>(
            threadsMax: 64, threadsAtRest: 4,
            kind: BlockingCalls.Kind(
                perform: { key, first in
                    switch first {
                    case "warm":
                        script.warming.add()
                        script.warm.wait(for: "four threads are at work")
                    case "hung":
                        script.hung.add()
                        script.open.wait(for: "the test ends")
                    case "served": script.joined.wait(for: "another waiter has joined")
                    default: break
                    }
                    return first
                },
                serves: { _, first, waiter in first == waiter },
                outcomeWithoutThread: { _ in "no thread" },
                reply: { outcome, _ in
                    // The thread that replies takes its next key, the waiter that was not served, behind this.
                    if outcome == "served" { _ = script.calls.withLock { $0 }?.call("later", for: "quick") }
                    script.answered.add()
                }))
        script.calls.withLock { $0 = calls }
        for number in 0..<4 { #expect(calls.call("warm\(number)", for: "warm")) }
        try await eventually("four threads are at work") { script.warming.value == 4 }
        script.warm.set()
        try await eventually("they are free") { script.answered.value == 4 }
        for number in 0..<2 { #expect(calls.call("hung\(number)", for: "hung")) }
        try await eventually("two hang") { script.hung.value == 2 }
        #expect(calls.call("shared", for: "served"))
        #expect(calls.call("shared", for: "hung"))
        script.joined.set()
        try await eventually("the one that joined hangs") { script.hung.value == 3 }
        // One of the four threads is idle, or a further one has started.
        try await eventually("the later one is answered") { script.answered.value == 6 }
        script.calls.withLock { $0 = nil }
    }
}
