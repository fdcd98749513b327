/// The running calls that wait for an identity service or for files, by identity: one whose service hangs leaves a third of the places to
/// the others.
struct WaitingCalls {
    private let countMax: Int
    /// Of one identity.
    private let shareMax: Int
    /// nil: calls whose identity is not known before their body is read.
    private var counts: [String?: Int] = [:]

    init(max countMax: Int) {
        self.countMax = countMax
        shareMax = countMax - countMax / 3
    }

    /// Whether another call of the identity may run; it counts until `end`.
    mutating func begin(of identity: String?) -> Bool {
        let count = counts[identity] ?? 0
        guard count < shareMax, counts.values.reduce(0, +) < countMax else { return false }
        counts[identity] = count + 1
        return true
    }

    mutating func end(of identity: String?) {
        guard let count = counts[identity] else { return }
        counts[identity] = count > 1 ? count - 1 : nil
    }
}
