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
    /// When it is due; `.never` when unset.
    package internal(set) var instant = Instant.never
    /// The heap's key: at or before `instant`, since moves to a later time do not change the heap at once.
    var key = Instant.never
    /// Its place in the heap, or -1.
    var place = -1

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
}

/// The deadlines of one loop: a binary heap that defers moves to later times.
///
/// A connection moves its deadline with every request, nearly always to a later time. Such a move is one store into the deadline. The heap
/// checks the deadline again when the old time comes. So the steady state costs no heap operation.
struct DeadlineHeap: ~Copyable {
    private var heap: [Deadline] = []

    /// No deadline is due before this.
    var earliest: Instant { heap.first?.key ?? .never }

    var count: Int { heap.count }

    mutating func set(_ deadline: Deadline, at instant: Instant) {
        deadline.instant = instant
        if deadline.place < 0 {
            guard instant != .never else { return }
            deadline.key = instant
            deadline.place = heap.count
            heap.append(deadline)
            rise(deadline.place)
        } else if instant < deadline.key {
            deadline.key = instant
            rise(deadline.place)
        }
    }

    /// Removes the deadline from the heap and unsets it.
    mutating func remove(_ deadline: Deadline) {
        deadline.instant = .never
        guard deadline.place >= 0 else { return }
        let place = deadline.place
        let last = heap.count - 1
        if place != last {
            exchange(place, last)
            heap.removeLast()
            sink(place)
            rise(place)
        } else {
            heap.removeLast()
        }
        deadline.place = -1
    }

    /// The next deadline that is due, already unset, or nil.
    mutating func next(at now: Instant) -> Deadline? {
        while let first = heap.first, first.key <= now {
            if first.instant <= now {
                remove(first)
                return first
            }
            if first.instant == .never {
                remove(first)
            } else {
                first.key = first.instant
                sink(0)
            }
        }
        return nil
    }

    private mutating func rise(_ start: Int) {
        var place = start
        while place > 0 {
            let parent = (place - 1) / 2
            guard heap[place].key < heap[parent].key else { return }
            exchange(place, parent)
            place = parent
        }
    }

    private mutating func sink(_ start: Int) {
        var place = start
        while true {
            var least = place
            for child in (2 * place + 1)...(2 * place + 2) where child < heap.count && heap[child].key < heap[least].key
            {
                least = child
            }
            guard least != place else { return }
            exchange(place, least)
            place = least
        }
    }

    private mutating func exchange(_ a: Int, _ b: Int) {
        heap.swapAt(a, b)
        heap[a].place = a
        heap[b].place = b
    }
}
