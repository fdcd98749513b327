/// Random numbers: the same for the same seed, on every machine.
package struct SplitMix64 {
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

    package mutating func hits(_ probability: Double) -> Bool { chance() < probability }

    /// Uniform in 0 ..< `count`.
    package mutating func below(_ count: Int) -> Int { Int(truncatingIfNeeded: next() >> 33) % count }

    package mutating func pick<T>(_ choices: [T]) -> T { choices[below(choices.count)] }

    /// Uniform between two durations.
    package mutating func between(_ low: Duration, _ high: Duration) -> Duration { low + (high - low) * chance() }

    /// A multiple of `mean` as the time between two events that know nothing of each other; at most ten times the mean.
    package mutating func apart(_ mean: Duration) -> Duration {
        // The logarithm's place is taken by a sum of halvings: no libm, the same on every machine.
        var halvings = 0.0
        while halvings < 14, next() & 1 == 1 { halvings += 1 }
        return mean * ((halvings + chance()) * 0.667)
    }
}
