import Glibc

/// The buffer for a client's bytes: a request head, the bytes behind it, the head's reader and its field table.
///
/// A shard keeps some of them for reuse. A connection has one only while it has bytes. Belongs to the shard or the
/// connection, which check the queue.
final class RequestBuffer {
    static let firstCapacity = 16 << 10

    private var base: UnsafeMutableRawPointer
    private(set) var capacity = RequestBuffer.firstCapacity
    /// Bytes that have arrived.
    private(set) var count = 0
    /// Of these, how many belong to the present request.
    var used = 0
    /// Of the head at the front. Here, because an idle connection has no buffer, and so no reader.
    var reader = RequestReader()
    let table: FieldTable
    private let budget: BufferBudget

    init(fieldsMax: Int, budget: BufferBudget) {
        base = .allocate(byteCount: Self.firstCapacity, alignment: 16)
        table = FieldTable(capacity: fieldsMax, budget: budget)
        self.budget = budget
        budget.add(Self.firstCapacity)
    }

    deinit {
        base.deallocate()
        budget.release(capacity)
    }

    /// All bytes, from the first byte of the head.
    var bytes: Bytes { Bytes(start: UnsafePointer(base.assumingMemoryBound(to: UInt8.self)), count: count) }

    /// Bytes that belong to no request yet.
    var rest: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(start: base + used, count: count - used) }

    /// Reads the head at the front. Its bytes are used then; nil: it is not complete.
    ///
    /// A result, which costs less than a rethrown error: a closure calls this, so that no reference is counted.
    func readHead(_ limits: HeadLimits) -> Result<RequestHead?, HeadError> {
        do throws(HeadError) {
            let head = try reader.read(bytes, into: table, limits: limits)
            if let head { used = head.length }
            return .success(head)
        } catch {
            return .failure(error)
        }
    }

    /// Free space for a read. If there is none, the buffer grows up to `capacityMax` bytes in all.
    func room(upTo capacityMax: Int) -> UnsafeMutableRawBufferPointer {
        if count == capacity { grow(to: min(capacity * 2, max(capacityMax, capacity + 4096))) }
        return UnsafeMutableRawBufferPointer(start: base + count, count: capacity - count)
    }

    func recordArrival(_ amount: Int) { count += amount }

    func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        if capacity - count < bytes.count { grow(to: max(capacity * 2, count + bytes.count)) }
        (base + count).copyMemory(from: source, byteCount: bytes.count)
        count += bytes.count
    }

    /// Writes used bytes at `place` and drops all bytes behind them. False if they do not fit.
    func put(_ bytes: UnsafeRawBufferPointer, at place: Int) -> Bool {
        guard let source = bytes.baseAddress, bytes.count <= capacity - place else { return false }
        (base + place).copyMemory(from: source, byteCount: bytes.count)
        count = place + bytes.count
        used = count
        return true
    }

    /// Replaces used bytes by others of the same number.
    func replace(_ range: Range<Int>, by bytes: Bytes) {
        precondition(range.upperBound <= count && bytes.count == range.count)
        (base + range.lowerBound).copyMemory(
            from: UnsafeRawPointer(bytes.baseAddress.unsafelyUnwrapped), byteCount: bytes.count)
    }

    /// Moves the bytes that belong to no request yet to the front.
    func compact() {
        let left = count - used
        if left > 0 { memmove(base, base + used, left) }
        (count, used) = (left, 0)
        reader = RequestReader()
        table.removeAll()
    }

    private func grow(to larger: Int) {
        let block = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 16)
        block.copyMemory(from: base, byteCount: count)
        base.deallocate()
        budget.add(larger - capacity)
        (base, capacity) = (block, larger)
    }
}
