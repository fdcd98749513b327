/// Lengths of field names. A field whose length is not among them has none of the names, without a look at its bytes: most
/// fields of a head are told from the few names that a route or a `Connection` field states by one test.
struct NameLengths: Equatable, Sendable {
    /// Lengths from here on share a bit.
    private static let longest = 63

    private var bits: UInt64 = 0

    /// Every length.
    static let all: NameLengths = {
        var lengths = NameLengths()
        lengths.bits = .max
        return lengths
    }()

    var isEmpty: Bool { bits == 0 }

    @inline(__always)
    func contains(_ length: Int) -> Bool { bits &>> UInt64(min(length, Self.longest)) & 1 == 1 }

    mutating func insert(_ length: Int) { bits |= 1 &<< UInt64(min(length, Self.longest)) }

    @inline(__always)
    func union(_ other: NameLengths) -> NameLengths {
        var lengths = self
        lengths.bits |= other.bits
        return lengths
    }
}
