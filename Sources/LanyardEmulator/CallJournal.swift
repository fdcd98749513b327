import FlyingFox

/// The latest calls in the order of their arrival.
struct CallJournal: Sendable {
    /// Calls that are remembered; those of the protected resource are not written down.
    static let callsMax = 20_000

    private var calls: [EmulatorCall] = []
    /// The number of the next call.
    private var next = 1

    /// - Returns: its number.
    mutating func begin(_ route: Route, at now: Double) -> Int {
        defer { next += 1 }
        calls.append(EmulatorCall(number: next, route: route.rawValue, arrivedAt: now))
        // In large steps, so that not every call moves them all.
        if calls.count > 2 * Self.callsMax { calls.removeFirst(calls.count - Self.callsMax) }
        return next
    }

    /// Writes more about a call; nothing happens when it is remembered no more.
    mutating func edit(_ number: Int, _ change: (inout EmulatorCall) -> Void) {
        guard let first = calls.first?.number, number >= first, number - first < calls.count else { return }
        change(&calls[number - first])
    }

    /// The calls after the one with this number.
    func after(_ number: Int) -> [EmulatorCall] { Array(calls.suffix(Self.callsMax).drop { $0.number <= number }) }
}
