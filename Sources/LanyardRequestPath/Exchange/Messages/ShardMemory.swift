import LanyardFoundations
import LanyardSettings

/// The memory that one shard's connections and exchanges share: the buffer of a read, spare request buffers, the table of a response's
/// head, and that of TLS sessions. Belongs to the shard's queue, which its users check.
final class ShardMemory {
    /// Buffers kept for the next request.
    private static let spareBuffersMax = 256

    /// Counts all of it, for the process.
    let budget: BufferBudget
    /// The buffer for one read of any socket; its bytes are processed before the next read.
    let scratch: UnsafeMutableRawBufferPointer
    /// Memory of all TLS sessions.
    let tls: TLSWorkspace
    /// The table of the response head that is being read.
    private(set) var responseTable: FieldTable
    /// Largest number of fields of a request's head.
    private var fieldsMax: Int
    /// The same of a response's.
    private var responseFieldsMax: Int
    private var spareBuffers: [RequestBuffer] = []
    private let paused: PausedReaders
    /// Of clients' connections.
    let clientFrames: FrameMemory
    /// Of upstreams' connections.
    let upstreamFrames: FrameMemory

    init(budget: BufferBudget, _ configuration: ServedConfiguration, on loop: EventLoop) {
        self.budget = budget
        scratch = .allocate(byteCount: ReadSize.large, alignment: 64)
        tls = TLSWorkspace(budget: budget)
        clientFrames = FrameMemory(budget: budget, on: loop)
        upstreamFrames = FrameMemory(budget: budget, on: loop)
        fieldsMax = configuration.limits.headerFieldsMax
        responseFieldsMax = configuration.responseLimits.fieldsMax
        responseTable = Self.responseTable(responseFieldsMax, budget)
        paused = PausedReaders(loop: loop, budget: budget)
    }

    deinit { scratch.deallocate() }

    /// Another configuration is served: its limits hold for what is made from now on.
    func adopt(_ configuration: ServedConfiguration) {
        fieldsMax = configuration.limits.headerFieldsMax
        responseFieldsMax = configuration.responseLimits.fieldsMax
        spareBuffers.removeAll()
        renewResponseTable()
    }

    /// The present table is in use until its head is complete, or is too small.
    func renewResponseTable() { responseTable = Self.responseTable(responseFieldsMax, budget) }

    /// Has room for a trailer section, and for the `Connection` lines of its head.
    private static func responseTable(_ fieldsMax: Int, _ budget: BufferBudget) -> FieldTable {
        FieldTable(capacity: 2 * fieldsMax, budget: budget)
    }

    func acquireBuffer() -> RequestBuffer {
        spareBuffers.popLast() ?? RequestBuffer(fieldsMax: fieldsMax, budget: budget)
    }

    func release(_ buffer: consuming RequestBuffer) {
        guard spareBuffers.count < Self.spareBuffersMax, buffer.capacity == RequestBuffer.firstCapacity,
            buffer.table.capacity == fieldsMax, !budget.isUnder(.optionalFreed)
        else { return }
        buffer.used = buffer.count
        buffer.compact()
        spareBuffers.append(buffer)
    }

    /// The buffer for one read; its bytes may have to be queued. nil: no memory is left, and the reader pauses.
    @inline(__always)
    func room(for reader: some PausableReader, upTo sizeMax: Int = ReadSize.standard) -> UnsafeMutableRawBufferPointer?
    {
        let readSize = budget.readSize(upTo: sizeMax)
        if readSize == ReadSize.large { return scratch }
        guard readSize == 0 else { return UnsafeMutableRawBufferPointer(rebasing: scratch[0..<readSize]) }
        if !reader.isPaused {
            reader.isPaused = true
            paused.add(reader)
        }
        return nil
    }

    /// Optional memory is freed.
    func releaseSpare() {
        spareBuffers.removeAll()
        clientFrames.releaseSpare()
        upstreamFrames.releaseSpare()
        tls.releaseAll()
    }
}
