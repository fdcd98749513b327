import LanyardRequestPath
import TestSupport

@testable import LanyardFoundations
@testable import LanyardSessions

/// Shards as the session path sees them: each has a queue of what was posted to it, and takes it when the seed says so.
/// The token caches are real. Each request has a configuration, and the token that it gets must be of an account which
/// that configuration gives its route.
///
/// The service's queue posts. All else belongs to the thread of the test.
final class SimulatedShards: TokenSubscriber, @unchecked Sendable {
    /// What a run does wrong on purpose: the name alone decides, as before users had epochs, and one kind of message
    /// overtakes the other.
    enum Fault: String, CaseIterable, Sendable { case publishBeforeRoutes, routesBeforePublish }

    /// The routes of one configuration: one for each name, and one that follows the active user.
    final class Routes: Sendable {
        let number: Int
        init(number: Int) { self.number = number }
    }

    private enum Message {
        case serve(Routes, users: [String: UserIndex], active: UserIndex?)
        case publish(AccessToken.Availability, UserIndex, HeardRefusals)
        case account(AccountNumber, UserIndex)
        case activate(UserIndex?)

        var isServe: Bool { if case .serve = self { true } else { false } }
    }

    /// The accounts that requests of one configuration may get.
    private struct Owners {
        /// The services at which the user of a name had its account.
        var services: [String: Set<String>] = [:]
        var active: Set<String> = []
    }

    private final class Shard {
        let cache: TokenCache
        var routes: Routes?
        var users: [String: UserIndex] = [:]
        var active: UserIndex?
        var waiting: [Request] = []

        init(_ source: any TokenSource) { cache = TokenCache(source: source) }
    }

    private final class Request: TokenCache.Waiter {
        let number: Int
        /// nil: of the active user.
        let route: String?
        let user: UserIndex
        unowned let shard: Shard
        unowned let shards: SimulatedShards

        init(_ number: Int, _ route: String?, _ user: UserIndex, _ shard: Shard, _ shards: SimulatedShards) {
            (self.number, self.route, self.user, self.shard, self.shards) = (number, route, user, shard, shards)
        }

        func handleTokenCacheChange() { shards.decide(self) }
    }

    /// Of the configured users. Set before the first message is taken.
    nonisolated(unsafe) var names = UserNames()
    private let fault: Fault?
    private let posted = Guarded<[[Message]]>([[], []])
    private let source = Source()
    private var shards: [Shard] = []
    private var owners: [Int: Owners] = [:]
    private(set) var latestNumber = -1
    /// Requests that got a token of a wrong account, in words.
    private(set) var wrongPairs: [String] = []
    private(set) var served = 0
    private(set) var replaced = 0

    init(fault: Fault? = nil) {
        self.fault = fault
        shards = (0..<2).map { _ in Shard(source) }
    }

    func connect(to service: SessionService) { source.service.withLock { $0 = service } }

    // MARK: Messages

    private func key(_ user: UserIndex) -> UserIndex { fault == nil ? user : UserIndex(user.number) }

    private func post(_ message: Message) {
        posted.withLock { queues in
            for place in queues.indices {
                let isAhead = fault.map { ($0 == .routesBeforePublish) == message.isServe } ?? false
                // Among its own kind each message keeps its place.
                let last = queues[place].lastIndex { $0.isServe == message.isServe }
                queues[place].insert(message, at: isAhead ? (last ?? -1) + 1 : queues[place].count)
            }
        }
    }

    func publish(_ availability: AccessToken.Availability, for user: UserIndex, heard: HeardRefusals) {
        post(.publish(availability, key(user), heard))
    }

    func publish(_ account: AccountNumber, for user: UserIndex) { post(.account(account, key(user))) }

    func activate(_ user: UserIndex?) { post(.activate(user.map(key))) }

    func serve(_ routes: Routes, active: UserIndex?) {
        // As `RequestPath` does: a route may name a user that nothing configures.
        let users = Dictionary(
            uniqueKeysWithValues: ReloadWalk.names.map { name in
                let (user, isNew) = names.add(name)
                if isNew { publish(.none(.userUnknown(wasRemoved: false)), for: user, heard: .none) }
                return (name, key(user))
            })
        latestNumber = routes.number
        post(.serve(routes, users: users, active: active.map(key)))
    }

    /// Requests of the latest configuration may get these users' accounts from now on.
    func noteOwners(_ users: [(name: String, service: String)], active: String?) {
        for (name, service) in users {
            owners[latestNumber, default: Owners()].services[name, default: []].insert(service)
        }
        if let active { owners[latestNumber, default: Owners()].active.insert(active) }
    }

    // MARK: Turns

    /// One shard takes some of its messages.
    func turn(_ dice: inout SeededGenerator) {
        let place = Int.random(in: 0..<shards.count, using: &dice)
        for _ in 0..<Int.random(in: 1...4, using: &dice) {
            let message = posted.withLock { $0[place].isEmpty ? nil : $0[place].removeFirst() }
            guard let message else { return }
            take(message, shards[place])
        }
    }

    private func take(_ message: Message, _ shard: Shard) {
        switch message {
        case .serve(let routes, let users, let active):
            (shard.routes, shard.users, shard.active) = (routes, users, active)
            for user in users.values { shard.cache.add(user) }
            if let active { shard.cache.add(active) }
        case .publish(let availability, let user, let heard): shard.cache.receive(availability, for: user, heard: heard)
        case .account(let account, let user): shard.cache.receive(account, for: user)
        case .activate(let user):
            shard.active = user
            if let user { shard.cache.add(user) }
        }
    }

    /// A request comes to one shard.
    func request(_ dice: inout SeededGenerator, names: [String]) {
        let shard = shards[Int.random(in: 0..<shards.count, using: &dice)]
        let route = dice.chance() < 0.4 ? nil : names.randomElement(using: &dice)
        guard let routes = shard.routes, let user = route.map({ shard.users[$0] }) ?? shard.active else { return }
        let request = Request(routes.number, route, user, shard, self)
        shard.waiting.append(request)
        decide(request)
    }

    private func decide(_ request: Request) {
        switch request.shard.cache.decide(request.user, at: .now) {
        case .park: return request.shard.cache.park(request, for: request.user)
        case .use(let token): check(token, request)
        case .refuse: break
        case .replaced: replaced += 1
        }
        request.shard.waiting.removeAll { $0 === request }
    }

    private func check(_ token: AccessToken, _ request: Request) {
        served += 1
        let parts = (Tokens.text(token.token) ?? "").split(separator: "/").map(String.init)
        let name = names[request.user]
        let owners = owners[request.number] ?? Owners()
        let isAllowed =
            owners.services[name]?.contains(parts[0]) == true && (request.route != nil || owners.active.contains(name))
        if !isAllowed {
            wrongPairs.append(
                "configuration \(request.number), route of \(request.route ?? "the active user"), user \(name): \(parts)"
            )
        }
    }

    private final class Source: TokenSource {
        let service = Guarded<SessionService?>(nil)

        func tokenNeeded(by user: UserIndex) { service.withLock { $0 }?.tokenNeeded(by: user) }

        func tokenRefused(by user: UserIndex, generation: UInt64, number: RefusalNumber) {
            service.withLock { $0 }?.tokenRefused(by: user, generation: generation, number: number)
        }
    }
}
