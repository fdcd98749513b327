import FlyingFox

/// The latest calls in the order of their arrival.
struct CallJournal: Sendable {
    /// Calls that are kept. Calls of the protected resource are not recorded.
    static let callsMax = 20_000

    private var calls: [EmulatorCall] = []
    /// The number of the next call.
    private var next = 1

    /// - Returns: its number.
    mutating func begin(_ route: Route, at now: Double) -> Int {
        defer { next += 1 }
        calls.append(EmulatorCall(number: next, route: route.rawValue, arrivedAt: now))
        // Removed in large steps, because each removal moves the rest.
        if calls.count > 2 * Self.callsMax { calls.removeFirst(calls.count - Self.callsMax) }
        return next
    }

    /// Changes the record of a call. Nothing happens if the call is no longer kept.
    mutating func edit(_ number: Int, _ change: (inout EmulatorCall) -> Void) {
        guard let first = calls.first?.number, number >= first, number - first < calls.count else { return }
        change(&calls[number - first])
    }

    /// The calls after the one with this number.
    func after(_ number: Int) -> [EmulatorCall] { Array(calls.suffix(Self.callsMax).drop { $0.number <= number }) }
}
