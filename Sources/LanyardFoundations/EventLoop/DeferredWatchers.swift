/// Watchers that continue later in the turn, in the order in which they asked. Two arrays take turns, so that a turn allocates nothing.
///
/// Belongs to the loop, whose queue it checks.
struct DeferredWatchers {
    private var waiting: [Watcher] = []
    private var spare: [Watcher] = []

    var isEmpty: Bool { waiting.isEmpty }

    mutating func append(_ watcher: Watcher) { waiting.append(watcher) }

    /// Removes the first ones, `countMax` at most. They are given back to `keep` behind their use.
    mutating func take(upTo countMax: Int) -> [Watcher] {
        var batch: [Watcher] = []
        swap(&batch, &spare)
        if waiting.count <= countMax {
            swap(&batch, &waiting)
        } else {
            batch.append(contentsOf: waiting.prefix(countMax))
            waiting.removeFirst(countMax)
        }
        return batch
    }

    /// Keeps the memory of a batch for the next one.
    mutating func keep(_ batch: consuming [Watcher]) {
        batch.removeAll(keepingCapacity: true)
        spare = batch
    }
}
