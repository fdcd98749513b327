/// Reads that watches are to begin, by their loops: each loop gets them at once.
struct PlannedReads {
    private struct Group: Sendable {
        let loop: EventLoop
        var reads: [(watch: FileWatch, at: Instant)] = []
    }

    private var groups: [ObjectIdentifier: Group] = [:]

    mutating func append(_ watch: FileWatch, at instant: Instant) {
        groups[ObjectIdentifier(watch.loop), default: Group(loop: watch.loop)].reads.append((watch, instant))
    }

    func begin() {
        for group in groups.values {
            group.loop.post { for (watch, instant) in group.reads { watch.read(at: instant) } }
        }
    }
}
