/// What the last checks of a `ByteStream` found that the other side had not taken or acknowledged.
package struct PeerProgress {
    /// What the kernel's send buffer says about the other side since the last check. A side that reads slowly empties
    /// that buffer before it takes a byte of the queue.
    package enum Found: Equatable {
        /// The kernel holds no byte, and held none at the last check.
        case empty
        /// The other side has taken the last byte.
        case emptied
        /// The other side has taken some bytes. At a first check bytes in the buffer count as taken, too.
        case shrunk
        /// The other side has taken none.
        case unchanged

        package var isProgress: Bool { self == .emptied || self == .shrunk }
    }

    // An idle connection has one: the order leaves the fewest gaps.

    /// Acknowledged bytes at the last `hasStalled`; nil: all were acknowledged.
    var acknowledged: UInt64?
    /// Calls of `hasStalled` since then that found the same; 2 stands for more.
    private var unchangedChecks: UInt8 = 0
    /// Bytes in the kernel's send buffer at the last `restart` or `check`.
    private var kernelBytes: Int32 = 0

    /// - Parameter bytes: in the kernel's send buffer now.
    mutating func restart(at bytes: Int) { kernelBytes = Int32(clamping: bytes) }

    /// - Parameter bytes: as `restart`.
    mutating func check(_ bytes: Int) -> Found {
        let before = Int(kernelBytes)
        restart(at: bytes)
        if bytes == 0 { return before == 0 ? .empty : .emptied }
        return before == 0 || bytes < before ? .shrunk : .unchanged
    }

    /// - Parameter acknowledged: bytes so far; not all were.
    /// - Returns: whether the last three calls found the same.
    mutating func hasStalled(at acknowledged: UInt64) -> Bool {
        unchangedChecks = self.acknowledged == acknowledged ? min(unchangedChecks + 1, 2) : 0
        self.acknowledged = acknowledged
        return unchangedChecks >= 2
    }
}
