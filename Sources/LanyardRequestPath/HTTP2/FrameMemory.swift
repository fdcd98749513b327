import LanyardFoundations

/// What one shard's connections of HTTP/2 of one side use in turn: the buffer of a read, the codec's events, the frames of a turn.
///
/// Clients and upstreams have one each: what one brings is forwarded to the other while its events are in use. Belongs to the shard's
/// queue, which its users check.
package final class FrameMemory {
    private static let spareTurnBuffersMax = 16

    let budget: BufferBudget
    private let paused: PausedReaders
    private var framesRoom: UnsafeMutableRawBufferPointer?
    private var ownWorkspace: HTTP2Workspace?
    private var spareTurnBuffers: [TurnBuffer] = []
    private var sessions = SessionPeak()

    /// - Parameter loop: the shard's.
    init(budget: BufferBudget, on loop: EventLoop) {
        self.budget = budget
        paused = PausedReaders(loop: loop, budget: budget)
    }

    deinit { framesRoom?.deallocate() }

    /// The memory of the codec's events; nil: there is none.
    func workspace() -> HTTP2Workspace? {
        let workspace = ownWorkspace ?? HTTP2Workspace()
        ownWorkspace = workspace
        return workspace
    }

    /// The buffer for one read; its bytes are processed before the next one. nil: no memory is left, and the reader pauses.
    func room(for reader: some PausableReader) -> UnsafeMutableRawBufferPointer? {
        let count = budget.readSize(upTo: ReadSize.large)
        guard count > 0 else {
            if !reader.isPaused {
                reader.isPaused = true
                paused.add(reader)
            }
            return nil
        }
        let whole = framesRoom ?? .allocate(byteCount: ReadSize.large, alignment: 64)
        framesRoom = whole
        return UnsafeMutableRawBufferPointer(rebasing: whole[0..<count])
    }

    /// A session begins.
    func beginSession() { sessions.begin() }

    /// The session ends. Its codec has had 25 KB.
    func endSession() { if sessions.end() { budget.noteUncountedFreed() } }

    func acquireTurnBuffer() -> TurnBuffer { spareTurnBuffers.popLast() ?? TurnBuffer() }

    func release(_ buffer: TurnBuffer) {
        guard spareTurnBuffers.count < Self.spareTurnBuffersMax, !budget.isUnder(.optionalFreed) else { return }
        buffer.clear()
        spareTurnBuffers.append(buffer)
    }

    /// Optional memory is freed.
    func releaseSpare() { spareTurnBuffers.removeAll() }
}
