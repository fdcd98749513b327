import CLinux
import Dispatch
import Glibc
import Synchronization

/// One serial Dispatch queue with its own epoll descriptor: a shard of the request path, or the loop of libcurl, health, admin.
///
/// One DispatchSource watches the epoll descriptor, so a loop costs libdispatch one source however many sockets it has. After a batch of
/// work the loop lingers in `epoll_wait` for about 20 ms. As long as more work comes, that avoids the wakeup through libdispatch. `post`
/// ends the wait through an eventfd. An idle loop makes no system call.
///
/// All state belongs to `queue`; `post` and `start` may be called from anywhere.
public final class EventLoop: Sendable {
    /// Names one registration. A stale one has no effect, because its generation differs from the slot's.
    public struct Watch: Equatable, Sendable {
        /// The watched descriptor.
        package let descriptor: CInt
        let slot: UInt32
        let generation: UInt32
    }

    private struct Slot {
        /// Counted by hand, so that an event does not count it: `forget` gives the reference up.
        var watcher: Unmanaged<Watcher>?
        var generation: UInt32
        /// An event of it is still to be delivered.
        var isReported = false
    }

    /// A busy loop returns its queue to Dispatch after this time.
    private static let iterationNanoseconds: Int64 = 1_000_000
    /// How long an iteration waits for work. A wakeup through the source wakes two threads, which costs more than the request itself. So a
    /// loop that has work fifty times a second stays off the source.
    private static let lingerNanoseconds: Int64 = 20_000_000
    /// How far the timer of an iteration under load is.
    private static let nearTimerNanoseconds: Int64 = 2_000_000
    /// An iteration that has waited this many times, for a millisecond or somewhat more, counts as one under load.
    private static let loadedBatches = 4
    private static let batchCapacity: CInt = 256
    private static let iterationTimerSlot: UInt64 = 0xffff_fffd
    /// For this long what a wait has reported counts as the state of the descriptors.
    private static let reportLifeNanoseconds: Int64 = 1_000_000
    private static let wakeupSlot: UInt64 = 0xffff_fffe
    private static let timerSlot: UInt64 = 0xffff_ffff

    /// No target queue: loops that target `.global()` starve one another.
    package let queue: DispatchQueue
    private let epoll: OwnedDescriptor
    private let wakeup: OwnedDescriptor
    private let timer: OwnedDescriptor
    private let iterationTimer: OwnedDescriptor
    private nonisolated(unsafe) let batch: UnsafeMutablePointer<epoll_event>
    private let lingering = Atomic<Bool>(false)
    private let posted = Atomic<Int>(0)

    private nonisolated(unsafe) var source: (any DispatchSourceRead)?
    /// The source is suspended. The next iteration is already on the queue, and there is only one.
    private nonisolated(unsafe) var isBusy = false
    private nonisolated(unsafe) var isStopped = false
    private nonisolated(unsafe) var handled = 0
    private nonisolated(unsafe) var slots: [Slot] = []
    private nonisolated(unsafe) var freeSlots: [UInt32] = []
    /// Events of a wait are being delivered. Watchers that are forgotten then stay until the last event is delivered: one of them may
    /// be the caller.
    private nonisolated(unsafe) var isDelivering = false
    private nonisolated(unsafe) var forgotten: [Unmanaged<Watcher>] = []
    private nonisolated(unsafe) var deadlines = DeadlineHeap()
    private nonisolated(unsafe) var armed = Instant.never
    private nonisolated(unsafe) var deferred = DeferredWatchers()
    #if DEBUG
    /// The loop's own time, which tests move.
    let time = LoopTime()
    #endif

    /// What `iterationTimer` was set to last.
    private nonisolated(unsafe) var iterationTimerEnd: Int64 = 0
    /// How often the latest iteration has waited.
    private nonisolated(unsafe) var batches = 0

    /// Reports of events so far. On the loop's queue only.
    package private(set) nonisolated(unsafe) var waits = 0
    /// When the latest of them was asked for or returned, by the machine's clock.
    private nonisolated(unsafe) var waited = EventLoop.machineTime
    /// The events that are still to be delivered.
    private nonisolated(unsafe) var undelivered = 0..<0

    /// Iterations so far. An idle loop has none. On the loop's queue only.
    package private(set) nonisolated(unsafe) var iterations = 0

    /// The time at the start of the present batch. On the loop's queue only.
    package private(set) nonisolated(unsafe) var now = Instant.now

    /// Makes the descriptors. No thread starts before `start`.
    ///
    /// - Throws: the machine's `.system(errno)`: the process or the machine has no descriptor or no memory left.
    package init(label: String) throws(SystemError) {
        queue = DispatchQueue(label: label)
        #if DEBUG
        LoopTime.install(time, on: queue)
        #endif
        epoll = try OwnedDescriptor(made: epoll_create1(CInt(EPOLL_CLOEXEC)), "creating an epoll descriptor")
        wakeup = try OwnedDescriptor(
            made: eventfd(0, CInt(EFD_CLOEXEC) | CInt(EFD_NONBLOCK)), "creating an eventfd")
        timer = try OwnedDescriptor.timer()
        iterationTimer = try OwnedDescriptor.timer()
        batch = .allocate(capacity: Int(Self.batchCapacity))
        try control(EPOLL_CTL_ADD, wakeup.raw, [.read, .edge], Self.wakeupSlot)
        try control(EPOLL_CTL_ADD, timer.raw, [.read, .edge], Self.timerSlot)
        try control(EPOLL_CTL_ADD, iterationTimer.raw, [.read, .edge], Self.iterationTimerSlot)
    }

    deinit {
        batch.deallocate()
        releaseWatchers()
    }

    private func releaseWatchers() {
        for slot in slots { slot.watcher?.release() }
        slots.removeAll()
    }

    /// Begins to watch. Once.
    package func start() {
        let source = DispatchSource.makeReadSource(fileDescriptor: epoll.raw, queue: queue)
        source.setEventHandler { [self] in wake() }
        source.setCancelHandler { [self] in
            self.source = nil
            releaseWatchers()
        }
        queue.sync {
            self.source = source
            if isBusy { source.suspend() }
        }
        source.activate()
    }

    /// Ends the loop permanently. Watchers receive nothing after this. The loop's descriptors close when the last reference to it goes.
    package func stop() {
        post { [self] in
            isStopped = true
            source?.cancel()
            resumeSource()
        }
    }

    /// Runs `work` on the loop's queue, soon: a lingering loop is woken.
    package func post(_ work: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            handled &+= 1
            now = .now
            work()
            // Watchers that the work deferred continue in an iteration. No event of their own will come.
            if deferred.isEmpty { armTimer() } else { wake() }
        }
        posted.add(1, ordering: .sequentiallyConsistent)
        if lingering.load(ordering: .sequentiallyConsistent) { eventfd_write(wakeup.raw, 1) }
    }

    #if DEBUG
    /// How often `post` was called: each time is a turn of the queue. From anywhere.
    package var postCount: Int { posted.load(ordering: .relaxed) }
    #endif

    /// Traps in a debug build when another queue or thread than the loop's runs the caller. A release build does nothing.
    ///
    /// It stands first in each function that others call of a type whose state belongs to a loop. `public`, because a `package` function
    /// is not inlined in other modules, and the check would be a call there.
    @inlinable @inline(__always)
    public func assertIsCurrent() {
        #if DEBUG
        checkQueue()
        #endif
    }

    #if DEBUG
    @usableFromInline
    func checkQueue() { dispatchPrecondition(condition: .onQueue(queue)) }
    #endif

    // MARK: Descriptors

    /// Informs `watcher` of `descriptor`'s readiness until `unwatch` or `forget`. The descriptor stays the caller's.
    ///
    /// - Throws: the machine's `.system(errno)`: no memory, too many watches of this user, or `EPERM` for a regular file. Nothing is
    ///   registered then.
    package func watch(
        _ descriptor: CInt, for readiness: IOReadiness, by watcher: Watcher
    ) throws(SystemError) -> Watch {
        assertIsCurrent()
        let slot: UInt32
        if let free = freeSlots.popLast() {
            slot = free
        } else {
            slot = UInt32(slots.count)
            slots.append(Slot(watcher: nil, generation: 0))
        }
        let watch = Watch(descriptor: descriptor, slot: slot, generation: slots[Int(slot)].generation)
        do {
            try control(EPOLL_CTL_ADD, descriptor, readiness, watch.data)
        } catch {
            freeSlots.append(slot)
            throw error
        }
        slots[Int(slot)].watcher = .passRetained(watcher)
        return watch
    }

    /// Changes what the registration watches for.
    ///
    /// - Throws: the machine's `.system(errno)`: no memory. The registration is as before.
    package func change(_ watch: Watch, to readiness: IOReadiness) throws(SystemError) {
        assertIsCurrent()
        try control(EPOLL_CTL_MOD, watch.descriptor, readiness, watch.data)
    }

    /// Stops watching a descriptor that stays open.
    package func unwatch(_ watch: Watch) {
        assertIsCurrent()
        epoll_ctl(epoll.raw, EPOLL_CTL_DEL, watch.descriptor, nil)
        forget(watch)
    }

    /// Stops watching a descriptor that is being closed and has no duplicate: the kernel removes it by itself.
    package func forget(_ watch: Watch) {
        assertIsCurrent()
        let slot = Int(watch.slot)
        guard slot < slots.count, slots[slot].generation == watch.generation, let watcher = slots[slot].watcher else {
            return
        }
        slots[slot].watcher = nil
        slots[slot].generation &+= 1
        slots[slot].isReported = false
        freeSlots.append(watch.slot)
        if isDelivering { forgotten.append(watcher) } else { watcher.release() }
    }

    /// Whether something may have happened to the descriptor. False: the latest report, at most a millisecond old, has nothing of it. That
    /// saves the system call that asks the descriptor.
    ///
    /// - Parameters:
    ///   - watch: an edge-triggered registration for reading.
    ///   - emptied: `waits` when the descriptor was last read empty, or later.
    package func mayHavePendingInput(_ watch: Watch, since emptied: Int) -> Bool {
        assertIsCurrent()
        if Self.machineTime - waited > Self.reportLifeNanoseconds { renewReport() }
        // A full report may lack descriptors.
        guard emptied < waits, undelivered.upperBound < Self.batchCapacity else { return true }
        return slots[Int(watch.slot)].isReported || Self.machineTime - waited > Self.reportLifeNanoseconds
    }

    /// Adds what has become ready to the batch that is being delivered. One call for all descriptors: with many requests in a batch, each
    /// would else ask for its own.
    private func renewReport() {
        let room = Self.batchCapacity - CInt(undelivered.upperBound)
        guard isDelivering, room > 0 else { return }
        let time = Self.machineTime
        let count = epoll_wait(epoll.raw, batch + undelivered.upperBound, room, 0)
        guard count >= 0 else { return }
        waited = time
        add(Int(count))
    }

    /// Adds events that a wait has put behind those of the batch.
    private func add(_ count: Int) {
        waits &+= 1
        let added = undelivered.upperBound..<undelivered.upperBound + count
        undelivered = undelivered.lowerBound..<added.upperBound
        for index in added {
            let data = lanyard_epoll_data(batch + index)
            let slot = Int(data & 0xffff_ffff)
            guard slot < slots.count, UInt64(slots[slot].generation) == data >> 32 else { continue }
            slots[slot].isReported = true
        }
    }

    private func control(_ operation: CInt, _ descriptor: CInt, _ readiness: IOReadiness, _ data: UInt64)
        throws(SystemError)
    {
        var event = lanyard_epoll_event(readiness.rawValue, data)
        guard epoll_ctl(epoll.raw, operation, descriptor, &event) == 0 else {
            throw SystemError(.machine, .system(errno), "watching a descriptor")
        }
    }

    /// Calls the watcher's `resume` after the other watchers of this batch: this one has used its share (http-connections.md 20.5).
    package func resumeLater(_ watcher: Watcher) {
        assertIsCurrent()
        deferred.append(watcher)
    }

    // MARK: Deadlines

    /// Sets or moves a deadline; `.never` unsets it. Each request moves several, nearly always to a later time.
    @inlinable @inline(__always)
    public func set(_ deadline: Deadline, at instant: Instant) {
        assertIsCurrent()
        if !deadline.postpone(to: instant) { advance(deadline, to: instant) }
    }

    /// Sets a deadline that `set` cannot postpone.
    @usableFromInline
    func advance(_ deadline: Deadline, to instant: Instant) {
        assertIsCurrent()
        deadlines.set(deadline, at: instant)
    }

    /// Unsets a deadline before its owner is released.
    package func drop(_ deadline: Deadline) {
        assertIsCurrent()
        deadlines.remove(deadline)
    }

    /// The timerfd ends a wait at the earliest deadline.
    ///
    /// - Parameter isIdle: the loop waits for nothing else. Else a setting for an earlier time serves, too: when that time comes, the
    ///   timer is set for what is then the earliest deadline.
    private func armTimer(isIdle: Bool = true) {
        let earliest = deadlines.earliest
        guard isIdle ? earliest != armed : earliest < armed else { return }
        armed = earliest
        lanyard_timer_set(timer.raw, earliest == .never ? 0 : timerSetting(earliest))
    }

    // MARK: The iteration

    /// The epoll descriptor is readable, or there is work without an event. While iterations follow one another the source stays suspended:
    /// arming it again takes two threads and four system calls.
    private func wake() {
        guard !isBusy, !isStopped else { return }
        isBusy = true
        source?.suspend()
        runIteration()
    }

    private func resumeSource() {
        guard isBusy else { return }
        isBusy = false
        source?.resume()
    }

    /// Works until the iteration's time is up or work has been posted. Then it returns the queue: to the next iteration, behind the posted
    /// work, or to the source if nothing came.
    private func runIteration() {
        guard !isStopped else { return }
        #if DEBUG
        guard !time.parksIteration() else { return }
        #endif
        iterations &+= 1
        now = .now
        let start = batchTime
        let end = start + Self.iterationNanoseconds
        let lingerEnd = start + Self.lingerNanoseconds
        // One timer serves the whole iteration, because a time limit on each wait would cost a kernel timer each. Under load the first
        // limit is near. Without a timer for many milliseconds the kernel puts the CPU into a deeper sleep. Each request of a single
        // client would pay for the wakeup. A timer of the iteration before that has not expired serves as well.
        let timerMax = batches >= Self.loadedBatches ? start + Self.nearTimerNanoseconds : lingerEnd
        if iterationTimerEnd <= start || iterationTimerEnd > timerMax { setIterationTimer(timerMax) }
        var worked = false
        var hasEnded = false
        batches = 0
        while !hasEnded {
            let count = wait()
            guard count >= 0 else { break }
            now = .now
            if deliver(count) { worked = true }
            fireDeadlines()
            if resumeDeferred() { worked = true }
            batches += 1
            let present = batchTime
            hasEnded = present >= (worked ? end : lingerEnd)
            if !hasEnded, present >= iterationTimerEnd { setIterationTimer(lingerEnd) }
        }
        armTimer(isIdle: hasEnded && !worked)
        if hasEnded && !worked { resumeSource() } else { queue.async { [self] in runIteration() } }
    }

    private func setIterationTimer(_ end: Int64) {
        iterationTimerEnd = end
        lanyard_timer_set(iterationTimer.raw, end)
    }

    /// Waits for events; the iteration's timer ends the wait. Negative if work has been posted, which goes first.
    private func wait() -> Int {
        guard deferred.isEmpty else { return max(Int(epoll_wait(epoll.raw, batch, Self.batchCapacity, 0)), 0) }
        lingering.store(true, ordering: .sequentiallyConsistent)
        defer { lingering.store(false, ordering: .sequentiallyConsistent) }
        guard posted.load(ordering: .sequentiallyConsistent) == handled else { return -1 }
        return max(Int(epoll_wait(epoll.raw, batch, Self.batchCapacity, -1)), 0)
    }

    /// At most this many at once: descriptors that have become ready must not wait for a thousand shares (http-connections.md 20.5).
    private static let resumedMax = 16

    private func resumeDeferred() -> Bool {
        guard !deferred.isEmpty else { return false }
        let watchers = deferred.take(upTo: Self.resumedMax)
        for watcher in watchers { watcher.resume() }
        deferred.keep(watchers)
        return true
    }

    /// Delivers the events of a wait. False if all are of the loop's own descriptors.
    private func deliver(_ count: Int) -> Bool {
        guard count > 0 else { return false }
        waited = batchTime
        var worked = false
        isDelivering = true
        undelivered = 0..<0
        add(count)
        // Calls may add more.
        while !undelivered.isEmpty {
            let index = undelivered.lowerBound
            undelivered = index + 1..<undelivered.upperBound
            if deliver(batch + index) { worked = true }
        }
        isDelivering = false
        while let watcher = forgotten.popLast() { watcher.release() }
        return worked
    }

    /// Delivers an event to its watcher. False for the loop's own descriptors.
    private func deliver(_ event: UnsafePointer<epoll_event>) -> Bool {
        let data = lanyard_epoll_data(event)
        let slot = data & 0xffff_ffff
        guard slot < slots.count else {
            // Edge-triggered, so an unread counter is reported only once.
            if slot == Self.timerSlot { armed = .never }
            return false
        }
        let entry = slots[Int(slot)]
        guard let watcher = entry.watcher, UInt64(entry.generation) == data >> 32 else { return true }
        slots[Int(slot)].isReported = false
        let watch = Watch(descriptor: -1, slot: UInt32(slot), generation: entry.generation)
        watcher._withUnsafeGuaranteedRef { $0.ready(IOReadiness(rawValue: event.pointee.events), on: watch) }
        return true
    }

    private func fireDeadlines() {
        while let deadline = deadlines.next(at: now) { deadline.owner?.due(deadline) }
    }
}

#if DEBUG
/// What tests stop and pass a loop's time with (`EventLoop.pass` of TestSupport). On the loop's queue.
extension EventLoop {
    /// The loop's time stands from now on, except while it is passed.
    ///
    /// - Parameter instant: the instant at which it stands; nil: the present one.
    package func stopTime(at instant: Instant? = nil) {
        time.stop(at: instant ?? .now)
        armed = .never
        armTimer()
    }

    /// Until `endPassing` the loop's time stands, and there are no iterations: what is not posted waits for `runDueWork`.
    package func beginPassing() { time.beginPassing() }

    /// Moves the time.
    package func advanceTime(by duration: Duration) { time.advance(by: duration) }

    /// A time that ran before runs again, from where it was moved to.
    package func endPassing() {
        let hasParkedIteration = time.endPassing()
        now = .now
        armed = .never
        if hasParkedIteration { queue.async { [self] in runIteration() } }
    }

    /// Until the next deadline, or until an earlier instant from which one was moved; nil: there is none.
    package var timeToDeadline: Duration? {
        deadlines.earliest == .never || isStopped ? nil : max(deadlines.earliest - .now, .zero)
    }

    /// The same reply, of work outside the loop. It is called on the loop's queue. From any thread.
    package func awaitedReply<Value: Sendable>(
        _ reply: @escaping @Sendable (Value) -> Void
    ) -> @Sendable (Value) -> Void {
        let awaited = AwaitedReply(of: time)
        return { value in
            awaited.end()
            reply(value)
        }
    }

    /// Such a reply has not come yet. From any thread.
    package var awaitsReplies: Bool { time.awaitedReplies > 0 }

    /// One round: delivers what is ready, calls the deadlines that are due, and resumes what was deferred.
    ///
    /// - Returns: whether there was anything to do, posted work since the previous round included.
    package func runDueWork() -> Bool {
        guard !isStopped else { return false }
        now = .now
        // The call itself was posted.
        let wasPosted = handled != time.handledAtRound &+ 1
        let isDue = deadlines.earliest <= now
        let wasReady = deliver(max(Int(epoll_wait(epoll.raw, batch, Self.batchCapacity, 0)), 0))
        fireDeadlines()
        let wasDeferred = resumeDeferred()
        time.handledAtRound = handled
        return wasPosted || isDue || wasReady || wasDeferred
            || posted.load(ordering: .sequentiallyConsistent) != handled
    }
}
#endif
