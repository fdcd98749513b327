/// Sessions of one kind on one shard, each with memory that the budget does not count. When many have ended, the allocator has much to give
/// back: it keeps what each thread has freed, and the next session may be served by another thread.
struct SessionPeak {
    /// Fewer sessions than that are not worth a trim of the allocator's memory.
    private static let freedSessionsMin = 64

    private var count = 0
    /// The most of them since `end` last returned true.
    private var peak = 0

    mutating func begin() {
        count += 1
        peak = max(peak, count)
    }

    /// - Returns: whether half of the sessions have ended.
    mutating func end() -> Bool {
        count -= 1
        guard peak >= Self.freedSessionsMin, count <= peak / 2 else { return false }
        peak = count
        return true
    }
}
