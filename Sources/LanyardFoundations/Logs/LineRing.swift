import Dispatch
import Synchronization

/// Carries log lines from one queue to the thread that writes them, without a lock and without an allocation.
///
/// Bounded: a line without room is dropped and counted, so the writer never waits for the reader of the log. One queue appends, one thread
/// drains.
package final class LineRing: @unchecked Sendable {
    /// Bytes that may wait, and the most of one line. A power of two.
    package static let bytesMax = 256 << 10

    private let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: LineRing.bytesMax, alignment: 64)
    private let sleeper: Sleeper
    /// Bytes appended since the start. Changed by the queue.
    private let appended = Atomic<Int>(0)
    /// Bytes drained since the start. Changed by the thread.
    private let drained = Atomic<Int>(0)
    private let dropped = Counter()

    /// - Parameter sleeper: the thread that drains.
    package init(wakes sleeper: Sleeper) { self.sleeper = sleeper }

    deinit { bytes.deallocate() }

    /// Lines that had no room. From any thread.
    package var droppedLines: Int { dropped.value }

    /// All lines have been drained. From any thread.
    package var isEmpty: Bool {
        drained.load(ordering: .sequentiallyConsistent) == appended.load(ordering: .sequentiallyConsistent)
    }

    /// Accepts one line, its newline included. On the queue; returns at once.
    package func append(_ line: UnsafeRawBufferPointer) {
        let end = appended.load(ordering: .relaxed)
        guard line.count <= Self.bytesMax - (end - drained.load(ordering: .acquiring)) else { return dropped.add() }
        let place = end & (Self.bytesMax - 1)
        let first = min(line.count, Self.bytesMax - place)
        copy(line[..<first], to: place)
        copy(line[first...], to: 0)
        // Ordered before the look at the sleeper, which looks here after it has said that it sleeps.
        appended.store(end + line.count, ordering: .sequentiallyConsistent)
        sleeper.wake()
    }

    private func copy(_ piece: Slice<UnsafeRawBufferPointer>, to place: Int) {
        guard !piece.isEmpty else { return }
        UnsafeMutableRawBufferPointer(rebasing: bytes[place...])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: piece))
    }

    /// Copies waiting lines, at most as many bytes as `room` has. The last line may be cut; its rest comes with the next
    /// call. On the thread.
    ///
    /// - Returns: the number of bytes. They are drained when `finishDrain` is called with it.
    package func drain(into room: UnsafeMutableRawBufferPointer) -> Int {
        let start = drained.load(ordering: .relaxed)
        let count = min(appended.load(ordering: .acquiring) - start, room.count)
        let place = start & (Self.bytesMax - 1)
        let first = min(count, Self.bytesMax - place)
        room.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[place..<place + first]))
        if first < count {
            UnsafeMutableRawBufferPointer(rebasing: room[first...])
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[0..<count - first]))
        }
        return count
    }

    /// The bytes of the last `drain` were written. Their room is free. On the thread.
    package func finishDrain(_ count: Int) {
        drained.store(drained.load(ordering: .relaxed) + count, ordering: .sequentiallyConsistent)
    }
}

/// The sleep of a thread that others give work to. Waking a thread that is awake costs one load.
///
/// The thread calls `fallAsleep`, looks for work once more, and then waits or stays awake. Who gives work publishes it first, sequentially
/// consistent, and then calls `wake`. So one of the two always sees the other.
package final class Sleeper: Sendable {
    private let isAsleep = Atomic<Bool>(false)
    private let semaphore = DispatchSemaphore(value: 0)

    package init() {}

    /// From any thread, after the work has been published.
    @inline(__always)
    package func wake() {
        guard isAsleep.load(ordering: .sequentiallyConsistent) else { return }
        if isAsleep.exchange(false, ordering: .sequentiallyConsistent) { semaphore.signal() }
    }

    /// The thread is about to wait. It looks for work once more before it does.
    package func fallAsleep() { isAsleep.store(true, ordering: .sequentiallyConsistent) }

    /// There was work after all. A `wake` since `fallAsleep` ends one later wait at once.
    package func stayAwake() { isAsleep.store(false, ordering: .sequentiallyConsistent) }

    /// Waits for `wake`.
    package func wait() { semaphore.wait() }
}
