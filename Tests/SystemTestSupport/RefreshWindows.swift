import TestSupport
import Testing

/// When the tokens of one session were due for renewal during a load, and that each was renewed once.
struct RefreshWindows {
    let tokenSeconds: Int

    /// A window opens when 65 % of the token's life have passed and closes at 75 %: one call in each, none besides.
    func expectOneCallEach(_ routes: JSON, _ issued: [JSON]) {
        #expect(routes["login"]["calls"].int == 1)
        #expect(routes["refresh"]["in_flight_max"].int == 1)
        #expect(routes["refresh"]["calls"].int == issued.count - 1)
        #expect(issued.map { $0["cause"].string } == ["login"] + Array(repeating: "refresh", count: issued.count - 1))
        let starts = issued.compactMap { $0["issued_at"].double }
        let life = Double(tokenSeconds)
        for (before, after) in zip(starts, starts.dropFirst()) {
            // The emulator notes when it issued. On a loaded machine it does so late, and the one before as well: then the time
            // between the two is shorter than between the two calls.
            let (early, late) = Sanitizer.isOn ? (2.0, 4.0) : (1.0, 1.0)
            #expect(
                (0.65 * life - early...0.75 * life + late).contains(after - before),
                "a refresh \(after - before) s after the one before")
        }
    }
}
