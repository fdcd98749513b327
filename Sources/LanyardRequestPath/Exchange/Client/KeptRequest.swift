/// What few requests have. An object, because each idle connection would have its room.
final class RareParts {
    /// The `Host` of a request whose head was released, for routes that map references to it.
    var host: CopiedBytes?
    /// Of a stream of HTTP/2.
    var trailers: CopiedBytes?
}

/// A copy of bytes, at a place that stays the same while it lives.
final class CopiedBytes {
    let bytes: Bytes

    init(_ bytes: Bytes) {
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = copy.initialize(from: bytes)
        self.bytes = Bytes(copy)
    }

    deinit { bytes.deallocate() }
}

/// A copy of `LoggedHead`, cut to what the log shows. An object, because few requests need one; the next request of its exchange may use
/// it again.
final class KeptHead {
    private var bytes: [UInt8] = []
    private var methodCount = 0
    private var pathCount = 0
    /// It holds the current request's.
    private(set) var isFilled = false

    func fill(with head: LoggedHead) {
        let method = head.method.prefix(AccessLog.methodBytesMax + 1)
        let path = head.path.prefix(AccessLog.pathBytesMax + 1)
        (isFilled, methodCount, pathCount) = (true, method.count, path.count)
        bytes.removeAll(keepingCapacity: true)
        bytes.reserveCapacity(methodCount + pathCount + (head.clientID?.count ?? 0))
        bytes.append(contentsOf: method)
        bytes.append(contentsOf: path)
        if let id = head.clientID { bytes.append(contentsOf: id) }
    }

    /// A kept copy has less room than this many bytes: an idle connection holds it.
    private static let keptBytesMax = 256

    /// The request has ended.
    ///
    /// - Returns: false: it holds too much to be used again.
    func empty() -> Bool {
        isFilled = false
        bytes.removeAll(keepingCapacity: true)
        return bytes.capacity <= Self.keptBytesMax
    }

    func withBytes(_ work: (LoggedHead) -> Void) {
        guard !bytes.isEmpty else { return work(LoggedHead()) }
        bytes.withUnsafeBufferPointer { all in
            var head = LoggedHead()
            head.method = all[run: 0..<methodCount]
            head.path = all[run: methodCount..<methodCount + pathCount]
            let id = all[run: methodCount + pathCount..<all.count]
            head.clientID = id.isEmpty ? nil : id
            work(head)
        }
    }
}
