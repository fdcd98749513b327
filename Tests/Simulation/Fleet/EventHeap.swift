import LanyardFoundations

/// What happens next in a simulated world: a binary heap by time; of two events at one time the one that was planned first comes first.
struct EventHeap<Event> {
    private struct Entry {
        var at: Instant
        var order: UInt64
        var event: Event

        func precedes(_ other: Entry) -> Bool { at == other.at ? order < other.order : at < other.at }
    }

    private var entries: ContiguousArray<Entry> = []
    private var planned: UInt64 = 0

    var count: Int { entries.count }

    /// When the next event comes; `.never` if none does.
    var nextAt: Instant { entries.first?.at ?? .never }

    mutating func plan(_ event: Event, at instant: Instant) {
        planned += 1
        entries.append(Entry(at: instant, order: planned, event: event))
        var place = entries.count - 1
        while place > 0 {
            let parent = (place - 1) / 2
            guard entries[place].precedes(entries[parent]) else { return }
            entries.swapAt(place, parent)
            place = parent
        }
    }

    mutating func removeNext() -> (at: Instant, event: Event)? {
        guard let first = entries.first else { return nil }
        let last = entries.removeLast()
        if !entries.isEmpty {
            entries[0] = last
            sink()
        }
        return (first.at, first.event)
    }

    private mutating func sink() {
        var place = 0
        while true {
            var least = place
            for child in (2 * place + 1)..<(2 * place + 3)
            where child < entries.count && entries[child].precedes(entries[least]) {
                least = child
            }
            guard least != place else { return }
            entries.swapAt(place, least)
            place = least
        }
    }
}
