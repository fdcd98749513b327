import LanyardFoundations

/// What has come on one stream of an upstream and its exchange has not taken. Belongs to the stream, whose connection checks the queue.
struct StreamIntake: ~Copyable {
    /// A head or a trailer section that waits.
    final class Section {
        var text: ByteQueue
        let isNeverIndexed: Bool

        init(_ bytes: UnsafeRawBufferPointer, isNeverIndexed: Bool = false, budget: BufferBudget) {
            self.isNeverIndexed = isNeverIndexed
            text = ByteQueue(budget: budget)
            text.append(bytes)
        }
    }

    struct PresentHead {
        let text: UnsafeRawBufferPointer
        let isNeverIndexed: Bool
    }

    enum Event {
        case head(PresentHead)
        case body(UnsafeRawBufferPointer)
        case trailers(UnsafeRawBufferPointer)
    }

    var heads: [Section] = []
    var body: ByteQueue
    var trailers: Section?
    /// In the codec's memory: valid while the owner is told of it.
    var present: Event?
    /// A head that waits for what the same read has brought of its stream besides, in the codec's memory.
    var presentHead: PresentHead?
    /// The upstream's end has come.
    var hasEnd = false
    /// The end, or the failure, was taken.
    var isOver = false
    var failure: UpstreamStream.Failure?
    /// What `take` has returned last.
    var takenSection: Section?
    /// Bytes that were taken, and whose room the upstream does not have back yet.
    var uncredited = 0

    init(body: consuming ByteQueue) { self.body = body }
}
