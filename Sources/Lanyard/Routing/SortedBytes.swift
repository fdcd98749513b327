/// Sorted byte strings with binary search: routes, hosts and denials are looked up without a hash or an allocation.
struct SortedBytes: Sendable {
    /// Each once, in the order of `precedes`.
    let values: [[UInt8]]

    init(_ values: some Sequence<[UInt8]>) { self.values = Set(values).sorted { $0.lexicographicallyPrecedes($1) } }

    /// The index of a string; nil if it is not there.
    ///
    /// - Parameter fold: maps each byte of `wanted` before the comparison; the values are mapped already.
    func place(of wanted: Bytes, as fold: (UInt8) -> UInt8 = { $0 }) -> Int? {
        var (low, high) = (0, values.count)
        while low < high {
            let middle = (low + high) / 2
            switch Self.order(values[middle], wanted, fold) {
            case 0: return middle
            case ..<0: low = middle + 1
            default: high = middle
            }
        }
        return nil
    }

    /// Negative if `value` comes first.
    private static func order(_ value: [UInt8], _ wanted: Bytes, _ fold: (UInt8) -> UInt8) -> Int {
        for index in 0..<min(value.count, wanted.count) {
            let difference = Int(value[index]) - Int(fold(wanted[index]))
            if difference != 0 { return difference }
        }
        return value.count - wanted.count
    }
}
