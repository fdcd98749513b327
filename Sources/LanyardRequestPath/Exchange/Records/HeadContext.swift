import LanyardFoundations

/// What one shard's writers of heads share: the buffer that they write into, the `Date`, Lanyard's name and the counters. Belongs to the
/// shard's queue, which the exchange checks.
final class HeadContext {
    /// `lanyard-` and eight hex digits: Lanyard's member of `Via`. Valid while this is: an array would be counted at each use.
    let viaName: UnsafeBufferPointer<UInt8>
    let counters: ShardCounters
    /// The head, or the short response, that is being written.
    var out = HeadWriter()
    /// The same for a client of HTTP/2. Empty but between a head's writing and its sending.
    var fields = HTTP2FieldWriter()
    /// The value of `Proxy-Authorization` for the request that is being written, if a proxy forwards it; else without meaning.
    var proxyAuthorization: Secret?
    private var dateBytes = [UInt8](repeating: 0x20, count: HTTPDate.count)
    private var dateSecond: Int64 = -1

    init(viaName: [UInt8], counters: ShardCounters) {
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: viaName.count)
        _ = copy.initialize(from: viaName)
        self.viaName = UnsafeBufferPointer(copy)
        self.counters = counters
    }

    deinit { viaName.deallocate() }

    /// Writes a `Date` of the current second.
    func writeDate(_ out: inout some HeadSink & ~Copyable) {
        let second = WallTime.now.seconds
        if second != dateSecond {
            dateSecond = second
            dateBytes.withUnsafeMutableBufferPointer {
                HTTPDate.write(WallTime(seconds: second), into: $0.baseAddress!)
            }
        }
        out.beginField("Date")
        out.write(dateBytes)
        out.endField()
    }
}
