import LanyardRequestPath
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// The session service with two subscribers, whose token caches report refusals to it. The test decides when a cache receives what was
/// published.
@Suite struct TokenSubscribersTests {
    private struct Publication {
        let availability: AccessToken.Availability
        let user: UserIndex
        let heard: HeardRefusals

        /// The number of the token, and what it says of its renewal.
        var text: String {
            guard case .token(let token) = availability else { return "none" }
            return token.renewal == .inProgress ? "\(token.generation) in renewal" : "\(token.generation)"
        }
    }

    private final class Source: TokenSource {
        let service = Guarded<SessionService?>(nil)
        private let reported = Guarded<[RefusalNumber]>([])
        /// The refusals that the cache has reported.
        var numbers: [RefusalNumber] { reported.withLock { $0 } }

        func tokenNeeded(by user: UserIndex) { service.withLock { $0 }?.tokenNeeded(by: user) }

        func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber) {
            reported.withLock { $0.append(number) }
            service.withLock { $0 }?.tokenRefused(by: user, generation: generation, number: number)
        }
    }

    /// The cache belongs to who receives, one at a time.
    private final class Subscriber: TokenSubscriber, @unchecked Sendable {
        let source = Source()
        let cache: TokenCache
        private let posted = Guarded<[Publication]>([])
        private let counted: TokenUses?

        init(_ counted: TokenUses? = nil) {
            self.counted = counted
            cache = TokenCache(source: source)
        }

        func publish(_ availability: AccessToken.Availability, for user: UserIndex, heard: HeardRefusals) {
            posted.withLock { $0.append(Publication(availability: availability, user: user, heard: heard)) }
        }

        func publish(_ account: AccountNumber, for user: UserIndex) {}

        func activate(_ user: UserIndex?) {}

        func uses(of user: UserIndex) -> TokenUses? { counted }

        /// What was published and was not received yet.
        var open: [Publication] { posted.withLock { $0 } }

        /// The cache receives so many publications.
        func receive(_ count: Int = .max) {
            let next = posted.withLock { posted in
                defer { posted.removeFirst(min(count, posted.count)) }
                return Array(posted.prefix(count))
            }
            for publication in next {
                cache.receive(publication.availability, for: publication.user, heard: publication.heard)
            }
        }

        /// An upstream refuses alice's token of this generation.
        func refuse(_ generation: UInt64, at now: Instant) -> String {
            let user = TokenSubscribersTests.alice
            // With the first token the account is known, and another one than before.
            return switch cache.handleRefusal(generation, of: user, accountEpoch: 1, at: now, forces: true) {
            case .renewed(let token): "renewed \(token.generation)"
            case .awaited: "awaited"
            case .inProgress: "in renewal"
            case .coolingDown: "cooling down"
            case .replaced: "replaced"
            case .unchanged: "unchanged"
            case .none: "none"
            }
        }
    }

    private static let alice = UserIndex(0)
    private let services = ScriptedServices()
    private let subscribers = [Subscriber(), Subscriber()]

    /// alice has her first token, and both caches have it.
    private func started(receives: Bool = true) throws -> SessionService {
        let identity = services.service("one")
        let alice = ManagedUser(
            UserSettings(name: "alice", identity: "demo", login: .emailPassword(email: "alice", password: "/right")),
            source: .service(identity))
        let store = KeptStore()
        let service = try SessionService(
            [alice], identities: [ConfiguredIdentity("demo", .service(identity, RefreshTokenSettings()))], store: store,
            contents: store.contents, subscribers: subscribers, logger: LogRecorder().logger)
        for subscriber in subscribers { subscriber.source.service.withLock { $0 = service } }
        service.loop.freezeTime()
        guard receives else { return service }
        service.start()
        service.loop.settle()
        for subscriber in subscribers { subscriber.receive() }
        return service
    }

    /// Publishes alice's present token once more.
    private static func publishAgain(_ service: SessionService) {
        service.runner(at: alice)?.handle(.session(.tokenRefused(.zero)))
    }

    @Test("what was published before the session path heard of a refusal does not confirm it; the reply does")
    func crossed() throws {
        let service = try started()
        defer { service.stop() }
        let one = subscribers[0]
        services.hold(true)
        // The session path hears of the refusal in the next turn.
        let outlook = service.loop.perform { [one] in
            let outlook = one.refuse(1, at: .now)
            Self.publishAgain(service)
            return outlook
        }
        service.loop.settle()
        let number = try #require(one.source.numbers.first)
        #expect(outlook == "awaited" && one.open.map(\.text) == ["1", "1 in renewal"])
        #expect(one.open.map { $0.heard.contains(number) } == [false, true])
        one.receive(1)
        #expect(one.refuse(1, at: .now) == "awaited" && one.source.numbers.count == 1)
        one.receive(1)
        #expect(one.refuse(1, at: .now) == "in renewal")
        services.hold(false)
        service.loop.settle()
        one.receive()
        #expect(one.refuse(1, at: .now) == "renewed 2" && one.source.numbers.count == 1)
    }

    @Test("of two subscribers each gets its own refusal confirmed, and one refresh is made for both")
    func crossedSubscribers() throws {
        let service = try started()
        defer { service.stop() }
        services.hold(true)
        let outlooks = service.loop.perform { [subscribers] in subscribers.map { $0.refuse(1, at: .now) } }
        service.loop.settle()
        #expect(outlooks == ["awaited", "awaited"])
        let numbers = subscribers.compactMap(\.source.numbers.first)
        for subscriber in subscribers {
            let heard = subscriber.open.map { publication in numbers.map { publication.heard.contains($0) } }
            #expect(subscriber.open.map(\.text) == ["1 in renewal", "1 in renewal"])
            #expect(heard == [[true, false], [true, true]])
        }
        services.hold(false)
        service.loop.settle()
        for subscriber in subscribers {
            subscriber.receive()
            #expect(subscriber.refuse(1, at: .now) == "renewed 2" && subscriber.source.numbers.count == 1)
        }
    }

    @Test("a refusal from before the start is confirmed by what is published after the session has handled it")
    func beforeStart() throws {
        let service = try started(receives: false)
        defer { service.stop() }
        let number = RefusalNumber.ofNewCache().next
        service.tokenRefused(by: Self.alice, generation: 1, number: number)
        service.start()
        service.loop.settle()
        let open = subscribers[0].open
        #expect(open.first?.heard.contains(number) == false && open.last?.heard.contains(number) == true)
    }

    @Test("a refusal of a user that is not there any more counts as heard")
    func unknownUser() throws {
        let service = try started()
        defer { service.stop() }
        let number = RefusalNumber.ofNewCache().next
        service.tokenRefused(by: UserIndex(7), generation: 1, number: number)
        service.loop.settle()
        #expect(subscribers[0].open.isEmpty)
        service.loop.perform { Self.publishAgain(service) }
        #expect(subscribers[0].open.map { $0.heard.contains(number) } == [true])
    }

    @Test("uses are those of all subscribers together, and unknown if one of them does not know")
    func uses() throws {
        let loop = try EventLoop(label: "test.sessions")
        loop.start()
        defer { loop.stop() }
        func uses(_ counted: [TokenUses?]) -> TokenUses? {
            let subscribers = TokenSubscribers(counted.map { Subscriber($0) }, on: loop)
            return loop.perform { subscribers.uses(of: Self.alice) }
        }
        let (one, two) = (TokenUses(responses: 5, successes: 3), TokenUses(responses: 2, successes: 1))
        #expect(uses([one]) == one)
        #expect(uses([one, two]) == TokenUses(responses: 7, successes: 4))
        #expect(uses([one, nil]) == nil && uses([nil, two]) == nil)
    }
}
