/// Random numbers that are the same in every run (SplitMix64).
package struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    package init(_ seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        return mixed ^ mixed >> 31
    }

    /// Uniform in 0 ..< 1.
    package mutating func chance() -> Double { Double(next() >> 11) / Double(1 << 53) }

    /// So many random bytes, eight at a time.
    ///
    /// Under the thread sanitizer Swift's runtime takes one lock whenever code that is not specialized looks up a tuple's metadata, as each
    /// step of `map` over a range does in a debug build. Behind some hundred threads that do the same, millions of steps never end.
    package mutating func bytes(_ count: Int) -> [UInt8] {
        var words = [UInt64](repeating: 0, count: (count + 7) / 8)
        var index = 0
        while index < words.count {
            words[index] = next()
            index += 1
        }
        return words.withUnsafeBytes { Array($0.prefix(count)) }
    }
}
