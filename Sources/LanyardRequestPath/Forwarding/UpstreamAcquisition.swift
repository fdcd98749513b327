import LanyardFoundations

/// An acquisition that is in progress. It is cancelled if its client disconnects.
package final class UpstreamAcquisition {
    let user: UserIndex
    let account: AccountNumber
    let need: UpstreamPool.Need
    var connector: Connector?
    private var completion: UpstreamPool.Completion?
    /// Others that wait for the connection that is opened for it, since HTTP/2 would carry them, too.
    var followers: [UpstreamAcquisition] = []
    var deadlineAt = Instant.never
    /// The end of `timeouts.connect_all`, from the first attempt on; nil: none was made.
    var connectDeadlineAt: Instant?
    /// Among the waiters of its upstream; nil: it waits for no slot.
    var wait: Permit?
    /// Among the process's parked requests. Only while it waits.
    var parked: Permit?
    /// Of the connection that is opened for it; nil: it waits, or it has ended.
    var slot: UpstreamSlot?
    /// How often descriptors were released for it.
    private var releases = 0

    init(
        _ user: UserIndex, _ account: AccountNumber, needing need: UpstreamPool.Need,
        _ completion: @escaping UpstreamPool.Completion
    ) {
        self.user = user
        self.account = account
        self.need = need
        self.completion = completion
    }

    /// Its client has not disconnected.
    var isAlive: Bool { completion != nil }
    /// A request waits for the connection that is opened for it.
    var isWanted: Bool { isAlive || followers.contains(where: \.isAlive) }

    var isWaiting: Bool { wait != nil }

    /// Its client has disconnected.
    func giveUp() { completion = nil }

    /// It has ended: calls `completion`, unless its client has disconnected.
    func complete(_ result: consuming Result<UpstreamLease, UpstreamError>) {
        let completion = completion
        self.completion = nil
        endWait()
        completion?(result)
    }

    /// It no longer waits for a slot.
    func endWait() {
        wait = nil
        parked = nil
    }

    /// It waits for a connection that serves others, too.
    func park(_ permit: consuming Permit) { parked = consume permit }

    /// Whether descriptors may be released once more: released ones may have been used by others.
    func canReleaseDescriptors(after code: CInt) -> Bool {
        guard DescriptorShortage.isCause(of: code), releases < 3 else { return false }
        releases += 1
        return true
    }
}

extension UpstreamPool {
    /// What the connections of a pool have in common. All but `proxy` is the shard's.
    struct Resources {
        let buffers: BufferBudget
        let tls: TLSWorkspace
        let frames: FrameMemory
        let streams = SpareStreams()
        let counters: HTTP2Counters
        /// Of the heads of responses.
        let responseLimits: HeadLimits
        var keepAlive = KeepAlivePolicy()
        let proxy: ShardProxy
    }
}
