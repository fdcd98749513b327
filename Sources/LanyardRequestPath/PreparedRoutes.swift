import LanyardFoundations
import LanyardSettings

/// What a reload has built to serve requests by: routes, upstreams, and each shard's pools and counters of them. `RequestPath.serve`
/// takes it. Nothing that serves requests refers to it until then, and it leaves nothing behind if it is dropped.
package final class PreparedRoutes: Sendable {
    /// Built from the settings, and kept from what was served then.
    struct Built: Sendable {
        let configuration: ServedConfiguration
        let users: PinnedUsers
        /// One for each shard.
        let routes: [ShardRoutes]
        /// The upstreams that nothing has served yet, by the first route of each.
        let newTargets: [Int]
        /// What is kept is of this.
        fileprivate let former: ServedConfiguration?

        init(
            _ settings: RequestPath.Settings, after former: [ShardRoutes], shards: [Shard],
            _ addresses: [(text: String, port: UInt16?)], _ resolver: Resolver
        ) {
            self.former = former.first?.configuration
            let configuration = ServedConfiguration(settings, keeping: self.former, addresses, resolver)
            var known = Set((self.former?.targets ?? []).map { ObjectIdentifier($0) })
            let targets = configuration.targets
            newTargets = targets.indices.filter { known.insert(ObjectIdentifier(targets[$0])).inserted }
            users = PinnedUsers(of: configuration.routeList)
            routes = zip(shards, former).map { $0.makeRoutes(configuration, settings.fieldSecrets, keeping: $1) }
            self.configuration = configuration
        }

        /// A pool and its target retain each other.
        fileprivate func drop() {
            for index in newTargets {
                for routes in routes { configuration.targets[index].remove(routes.pools[index]) }
            }
        }
    }

    let settings: RequestPath.Settings
    /// nil: it is served, or was dropped.
    let built: Guarded<Built?>

    init(_ settings: RequestPath.Settings, _ built: Built) {
        self.settings = settings
        self.built = Guarded(built)
    }

    /// Hands out what was built, once.
    ///
    /// - Parameter former: what is served now. If that is another configuration than the one that was served when this was built, what
    ///   was built is dropped: it would not keep the connections of what is served.
    func take(after former: [ShardRoutes]) -> Built? {
        guard let built = takeAny() else { return nil }
        guard built.former === former.first?.configuration else {
            built.drop()
            return nil
        }
        return built
    }

    private func takeAny() -> Built? {
        built.withLock { built in
            defer { built = nil }
            return built
        }
    }

    deinit { takeAny()?.drop() }
}

/// The users that routes name, each kind of token with its routes. Their indexes are known when the routes are to be served: the turn in
/// which a reload changes the users may have given them others.
struct PinnedUsers: Sendable {
    private struct Key: Hashable {
        let name: String
        let token: TokenVariant
    }

    /// In the order of their first routes.
    private var users: [(key: Key, routes: [Route])] = []

    init(of routes: [Route]) {
        var places: [Key: Int] = [:]
        for route in routes {
            guard let name = route.settings.user else { continue }
            let key = Key(name: name, token: route.settings.token)
            let place = places[key] ?? users.count
            if place == users.count { users.append((key, [])) }
            places[key] = place
            users[place].routes.append(route)
        }
    }

    /// Gives each route the index of its user. Before a shard gets the routes.
    ///
    /// - Returns: the users whose names were unknown until now.
    func bind(in names: UserNames) -> [UserIndex] {
        var unknown: [UserIndex] = []
        for (key, routes) in users {
            let (user, isNew) = names.add(key.name)
            if isNew { unknown.append(user) }
            let index = key.token == .plain ? user : names.index(of: key.name, variant: key.token.key)
            for route in routes { route.bind(index) }
        }
        return unknown
    }
}
