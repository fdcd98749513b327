import LanyardFoundations
import LanyardSessionInterface
import LanyardSessions

/// A token that another program renews, in a guided world: it changes, cannot be read for a while, and is refused by an upstream.
extension FleetWorld {
    func startFeed(_ process: FleetProcess) {
        process.feed = FleetFeed(UserIndex(members.count))
        tellFeed(process, reading)
    }

    private var reading: Session.Event {
        .fed(fedToken.map { .success($0) } ?? .failure(IdentityError(.credentialUnavailable, message: "simulated")))
    }

    /// The file changes, or something happens that is no news to who only reads.
    func stirFeed() {
        heap.plan(.feed, at: clocks.now + random.apart(.seconds(120)))
        guard random.hits(0.5) else {
            for process in running {
                let served = process.feed?.served?.generation ?? 0
                tellFeed(process, random.pick([.tokenNeeded, .tokenRefused(Generation(served)), .due]))
            }
            return
        }
        fedToken =
            random.hits(0.4) ? nil : SimulatedToken(.access, session: 0, value: .max, madeAt: clocks.now).secret
        for process in running { tellFeed(process, reading) }
    }

    func tellFeed(_ process: FleetProcess, _ event: Session.Event) {
        guard let feed = process.feed else { return }
        if plan.bug == .unreadServed, case .fed(.failure) = event { return }
        if let edge = feed.handle(event, at: eventContext()) { report.edges[edge.index] += 1 }
        report.checks += 1
        if feed.hasActed || feed.served?.token != fedToken {
            accuse(.fedToken, "process \(process.number).\(process.life) after \(event)")
        }
    }
}
