import LanyardRequestPath

/// Where an input is cut into pieces: a sequence of random numbers that the input itself determines, so that an artefact repeats.
struct FuzzCuts {
    private var state: UInt64

    init(_ input: Bytes) {
        // FNV-1a.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in input { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        state = hash
    }

    /// A random number (SplitMix64).
    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }

    /// The end of the piece that begins at `start`, of `count` bytes in all: one byte, a few, or many.
    mutating func end(from start: Int, of count: Int) -> Int {
        let left = count - start
        guard left > 0 else { return count }
        let word = next()
        let most =
            switch word & 3 {
            case 0: 1
            case 1: 9
            case 2: 90
            default: left
            }
        return start + 1 + Int(word >> 8 % UInt64(min(most, left)))
    }
}
