/// What one of several deadlines of a watcher is for. The watcher's `due` switches on it.
public protocol DeadlinePurpose: RawRepresentable<UInt8> {}

extension DeadlinePurpose {
    /// - Parameter deadline: of a watcher all of whose deadlines have a purpose of this type.
    public init(of deadline: Deadline) {
        guard let purpose = Self(rawValue: deadline.purpose) else {
            preconditionFailure("a deadline of another watcher")
        }
        self = purpose
    }
}

/// One deadline of a watcher. It may be set any number of times: a move to a later time costs one store.
///
/// It belongs to its loop's queue, which `EventLoop` checks. The owner removes it with `EventLoop.drop(_:)` before it is released.
public final class Deadline {
    /// The watcher that it informs; set once.
    package unowned var owner: Watcher?
    /// The raw value of a `DeadlinePurpose`; 0: its watcher has no other deadline.
    let purpose: UInt8
    /// When it is due; `.never` when unset. Only `EventLoop` sets it.
    @usableFromInline package var instant = Instant.never
    /// The heap's key: at or before `instant`, since moves to a later time do not change the heap at once.
    @usableFromInline var key = Instant.never
    /// Its place in the heap, or -1.
    @usableFromInline var place = -1

    /// - Parameter purpose: the raw value of a `DeadlinePurpose`.
    package init(of owner: Watcher, for purpose: UInt8 = 0) {
        self.owner = owner
        self.purpose = purpose
    }

    /// Makes one that is a stored constant of its owner. The owner sets `owner` at the end of its init. A deadline that moves with every
    /// request should not be lazy.
    ///
    /// - Parameter purpose: the raw value of a `DeadlinePurpose`.
    package init(for purpose: UInt8 = 0) { self.purpose = purpose }

    /// Moves it to a later time, without the heap, which checks it again when its key comes.
    ///
    /// - Returns: false: the heap has to move it.
    @inlinable @inline(__always)
    public func postpone(to instant: Instant) -> Bool {
        guard place >= 0, !(instant < key) else { return false }
        self.instant = instant
        return true
    }
}

/// The deadlines of one loop: a binary heap that defers moves to later times.
///
/// A connection moves its deadline with every request, nearly always to a later time. Such a move is one store into the deadline. The heap
/// checks the deadline again when the old time comes. So the steady state costs no heap operation.
struct DeadlineHeap: ~Copyable {
    /// A deadline in the heap, with its key beside it. Retained by hand, once for all of its moves.
    private struct Entry {
        var key: Instant
        let deadline: Unmanaged<Deadline>
    }

    private var heap: [Entry] = []

    deinit { for entry in heap { entry.deadline.release() } }

    /// No deadline is due before this.
    var earliest: Instant { heap.first?.key ?? .never }

    var count: Int { heap.count }

    mutating func set(_ deadline: Deadline, at instant: Instant) {
        if deadline.postpone(to: instant) { return }
        deadline.instant = instant
        if deadline.place >= 0 {
            deadline.key = instant
            heap[deadline.place].key = instant
            rise(from: deadline.place)
        } else if instant != .never {
            deadline.key = instant
            heap.append(Entry(key: instant, deadline: .passRetained(deadline)))
            rise(from: heap.count - 1)
        }
    }

    /// Removes the deadline from the heap and unsets it.
    mutating func remove(_ deadline: Deadline) {
        deadline.instant = .never
        let place = deadline.place
        guard place >= 0 else { return }
        deadline.place = -1
        let last = heap.removeLast()
        if place < heap.count {
            heap[place] = last
            sink(from: place)
            rise(from: last.deadline._withUnsafeGuaranteedRef { $0.place })
        }
        Unmanaged.passUnretained(deadline).release()
    }

    /// The next deadline that is due, already unset, or nil.
    mutating func next(at now: Instant) -> Deadline? {
        while let entry = heap.first, entry.key <= now {
            let first = entry.deadline.takeUnretainedValue()
            if first.instant <= now {
                remove(first)
                return first
            }
            if first.instant == .never {
                remove(first)
            } else {
                first.key = first.instant
                heap[0].key = first.instant
                sink(from: 0)
            }
        }
        return nil
    }

    /// Moves the entry towards the front until none before it has a later key.
    private mutating func rise(from start: Int) {
        heap.withUnsafeMutableBufferPointer { heap in
            let entry = heap[start]
            var place = start
            while place > 0, entry.key < heap[(place - 1) / 2].key {
                Self.put(heap[(place - 1) / 2], at: place, in: heap)
                place = (place - 1) / 2
            }
            Self.put(entry, at: place, in: heap)
        }
    }

    /// Moves the entry towards the end until none behind it has an earlier key.
    private mutating func sink(from start: Int) {
        heap.withUnsafeMutableBufferPointer { heap in
            let entry = heap[start]
            var place = start
            while 2 * place + 1 < heap.count {
                var child = 2 * place + 1
                if child + 1 < heap.count, heap[child + 1].key < heap[child].key { child += 1 }
                guard heap[child].key < entry.key else { break }
                Self.put(heap[child], at: place, in: heap)
                place = child
            }
            Self.put(entry, at: place, in: heap)
        }
    }

    @inline(__always)
    private static func put(_ entry: Entry, at place: Int, in heap: UnsafeMutableBufferPointer<Entry>) {
        heap[place] = entry
        entry.deadline._withUnsafeGuaranteedRef { $0.place = place }
    }
}
