import Dispatch

/// Makes calls that may block for any time, on threads of its own: one call at a time for each key, different keys at the same time.
///
/// A call cannot be ended, so each waiter bounds its own waiting. The waiters of a key share its call. A call that hangs costs one thread
/// until it returns and delays no other key by more than a few milliseconds. While all threads hang, further keys wait.
///
/// A thread starts when no other one is free, beyond the first four only while these are slow: ten thousand files of a local disk are read
/// sooner by few threads. It ends after 10 s without work, unless it is one of `threadsAtRest`.
package final class BlockingCalls<Waiter: Sendable, Outcome: Sendable>: Sendable {
    /// Starts a thread that runs the body; returns 0, or the `errno` value if there is none.
    package typealias Start = @Sendable (_ body: @escaping @Sendable () -> Void) -> CInt

    /// What belongs to one kind of call.
    package struct Kind: Sendable {
        /// Prepares a new thread.
        let prepareThread: @Sendable () -> Void
        /// Blocks until the outcome is known. `first` is the waiter that has waited longest.
        let perform: @Sendable (_ key: String, _ first: Waiter) -> Outcome
        /// Whether the outcome of a call for `first` serves this waiter. One that it does not serve gets another call. Does not wait.
        let serves: @Sendable (_ outcome: Outcome, _ first: Waiter, _ waiter: Waiter) -> Bool
        /// The outcome without a call, because no thread could be started: `code` is the `errno` value.
        let outcomeWithoutThread: @Sendable (_ code: CInt) -> Outcome
        /// Takes the outcome of one call, with all waiters that it serves. On a thread of the calls, or on the caller's of `call`.
        let reply: @Sendable (_ outcome: Outcome, _ waiters: [Waiter]) -> Void

        package init(
            prepareThread: @escaping @Sendable () -> Void = {},
            perform: @escaping @Sendable (_ key: String, _ first: Waiter) -> Outcome,
            serves: @escaping @Sendable (_ outcome: Outcome, _ first: Waiter, _ waiter: Waiter) -> Bool = { _, _, _ in
                true
            },
            outcomeWithoutThread: @escaping @Sendable (_ code: CInt) -> Outcome,
            reply: @escaping @Sendable (_ outcome: Outcome, _ waiters: [Waiter]) -> Void
        ) {
            self.prepareThread = prepareThread
            self.perform = perform
            self.serves = serves
            self.outcomeWithoutThread = outcomeWithoutThread
            self.reply = reply
        }
    }

    private struct State {
        /// From the request to the reply.
        var waiting: [String: [Waiter]] = [:]
        /// Keys that wait for a thread.
        var order = CallOrder()
        var threads = 0
        /// Threads that wait, including those that are being woken: each key in `order` stands for one.
        var idle = 0
        var isStopped = false
        /// Keys that were taken since the latest look.
        var taken = 0
        /// A look is planned.
        var isLooking = false
    }

    /// What a new waiter needs.
    private enum Consequence { case nothing, refusal, wakeup, thread, look }
    private enum Step { case perform(String, first: Waiter), wait(isKept: Bool), end }

    /// An idle thread ends after this time, unless it is kept (`threadsAtRest`).
    private static var idleTimeout: DispatchTimeInterval { .seconds(10) }

    /// So many threads start at once. Further ones start at looks.
    private static var promptThreads: Int { 4 }
    /// From one look to the next while keys wait: one thread may start at each.
    private static var lookInterval: DispatchTimeInterval { .milliseconds(5) }
    /// Threads that take so many keys each between two looks need no help.
    private static var quickTakes: Int { 8 }

    private let kind: Kind
    private let threadsMax: Int
    private let threadsAtRest: Int
    private let start: Start
    private let state = Guarded(State())
    private let work = DispatchSemaphore(value: 0)
    private let looks = DispatchQueue(label: "lanyard.calls")

    /// No thread starts before the first call.
    ///
    /// - Parameter threadsAtRest: idle threads that stay.
    package init(
        threadsMax: Int, threadsAtRest: Int = 0, kind: Kind, start: @escaping Start = { DetachedThread.start($0) }
    ) {
        self.threadsMax = threadsMax
        self.threadsAtRest = threadsAtRest
        self.kind = kind
        self.start = start
    }

    /// Makes a call for this key, or joins the one in progress. `reply` of the kind gets the waiter at most once, perhaps late or never.
    ///
    /// - Returns: false after `stop`: there is no call.
    package func call(_ key: String, for waiter: Waiter) -> Bool {
        let consequence = state.withLock { state -> Consequence in
            guard !state.isStopped else { return .refusal }
            let isNew = state.waiting[key] == nil
            state.waiting[key, default: []].append(waiter)
            guard isNew else { return .nothing }
            state.order.append(key)
            guard state.order.count > state.idle, state.threads < threadsMax else { return .wakeup }
            if state.threads >= Self.promptThreads {
                if state.isLooking { return .nothing }
                (state.isLooking, state.taken) = (true, 0)
                return .look
            }
            state.threads += 1
            return .thread
        }
        switch consequence {
        case .nothing: break
        case .refusal: return false
        case .wakeup: work.signal()
        case .thread: startThread()
        case .look: planLook()
        }
        return true
    }

    private func startThread() {
        let code = start { [self] in run() }
        if code != 0 { handleMissingThread(code) }
    }

    private func planLook() {
        looks.asyncAfter(deadline: .now() + Self.lookInterval) { [self] in look() }
    }

    /// Starts a thread if keys wait and the threads are slow, or hang. Looks follow one another while keys wait.
    private func look() {
        let (isStarting, wakeups, continues) = state.withLock { state -> (Bool, Int, Bool) in
            let taken = state.taken
            state.taken = 0
            // While all threads hang the next one that returns takes the keys.
            state.isLooking =
                !state.isStopped && !state.order.isEmpty && (state.idle > 0 || state.threads < threadsMax)
            guard state.isLooking else { return (false, 0, false) }
            let isStarting =
                state.order.count > state.idle && state.threads < threadsMax
                && taken < Self.quickTakes * state.threads
            if isStarting { state.threads += 1 }
            // A thread that was being woken when a key came was not idle any more, and its own key still in the order: the new key then
            // has had no signal. One too many does no harm.
            return (isStarting, min(state.order.count, state.idle), true)
        }
        for _ in 0..<wakeups { work.signal() }
        if isStarting { startThread() }
        if continues { planLook() }
    }

    /// Ends all waiting; later calls are refused. Threads whose calls hang stay until the process ends. Permanent; from any thread.
    ///
    /// - Returns: the waiters that get no reply.
    package func stop() -> [Waiter] {
        state.withLock { state in
            state.isStopped = true
            defer { (state.waiting, state.order) = ([:], CallOrder()) }
            return state.waiting.values.flatMap(\.self)
        }
    }

    /// No thread could be started for a key. The next free thread takes it. If there is no thread at all, every waiter gets a failure,
    /// because no reply would ever come.
    private func handleMissingThread(_ code: CInt) {
        let unserved = state.withLock { state -> [[Waiter]] in
            state.threads -= 1
            guard state.threads == 0 else { return [] }
            return state.order.takeAll().compactMap { state.waiting.removeValue(forKey: $0) }
        }
        for waiters in unserved { kind.reply(kind.outcomeWithoutThread(code), waiters) }
    }

    /// Runs one thread until it ends.
    private func run() {
        kind.prepareThread()
        while true {
            switch nextStep() {
            case .perform(let key, let first): complete(key, first, kind.perform(key, first))
            case .wait(let isKept):
                let end = isKept ? .distantFuture : DispatchTime.now() + Self.idleTimeout
                if endsAfterIdleWait(work.wait(timeout: end) == .timedOut) { return }
            case .end: return
            }
        }
    }

    private func nextStep() -> Step {
        state.withLock { state in
            while let key = state.order.takeFirst() {
                state.taken += 1
                if let first = state.waiting[key]?.first { return .perform(key, first: first) }
            }
            guard !state.isStopped else {
                state.threads -= 1
                return .end
            }
            state.idle += 1
            return .wait(isKept: state.idle <= threadsAtRest)
        }
    }

    /// - Returns: whether the thread ends. A key that came at the last moment is still taken by it.
    private func endsAfterIdleWait(_ isIdle: Bool) -> Bool {
        state.withLock { state in
            state.idle -= 1
            guard isIdle, state.order.isEmpty else { return false }
            state.threads -= 1
            return true
        }
    }

    private func complete(_ key: String, _ first: Waiter, _ outcome: Outcome) {
        let served = state.withLock { state -> [Waiter] in
            var waiters = state.waiting.removeValue(forKey: key) ?? []
            let split = waiters.partition { kind.serves(outcome, first, $0) }
            if split > 0 {
                state.waiting[key] = Array(waiters[..<split])
                state.order.append(key)
            }
            return Array(waiters[split...])
        }
        if !served.isEmpty { kind.reply(outcome, served) }
    }
}

/// Keys in the order of their arrival. Ten thousand files may wait at the start: taking one moves none of the others.
private struct CallOrder {
    private var keys: [String] = []
    /// The first one that was not taken.
    private var start = 0

    var count: Int { keys.count - start }
    var isEmpty: Bool { count == 0 }

    mutating func append(_ key: String) { keys.append(key) }

    mutating func takeFirst() -> String? {
        guard start < keys.count else { return nil }
        defer {
            start += 1
            // Half of the keys are taken: each is moved once on average.
            if start * 2 >= keys.count {
                keys.removeFirst(start)
                start = 0
            }
        }
        return keys[start]
    }

    mutating func takeAll() -> [String] {
        defer { self = CallOrder() }
        return Array(keys[start...])
    }
}
