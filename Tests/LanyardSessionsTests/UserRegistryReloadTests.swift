import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardSessionInterface
@testable import LanyardSessions
@testable import LanyardSettings

/// The users of a new configuration, decided without any call (architecture-control.md 7.9).
@Suite struct UserRegistryReloadTests {
    /// Stands for the object of an identity service.
    private final class Source: Sendable {}

    private let demo = Source(), moved = Source(), robot = Source()
    private let names = UserNames(["alice", "bob"])

    private static let login = UserSettings.Login.emailPassword(email: "a@example.com", password: "/a")

    private static func identity(_ name: String, _ app: String = "app") -> StoredIdentity {
        StoredIdentity(name, IdentityFingerprint(of: [app]))
    }

    private func origin(
        _ login: UserSettings.Login? = Self.login, app: String = "app", isAdded: Bool = false, source: Source? = nil
    ) -> UserOrigin {
        UserOrigin(
            identity: Self.identity("demo", app), isStatic: false, login: login, isAdded: isAdded,
            refreshTokens: RefreshTokenSettings(),
            source: ObjectIdentifier(source ?? demo))
    }

    private func user(_ name: String, isConfigured: Bool = true, isAuthenticated: Bool = true) -> RegisteredUser {
        RegisteredUser(
            name: name, index: names.index(of: name), identity: "demo", isConfigured: isConfigured,
            configuredProvider: isConfigured ? "email_password" : nil, accountID: "account-\(name)",
            provider: "email_password", loginState: isAuthenticated ? .authenticated : .none)
    }

    private func registry(
        _ users: [RegisteredUser], active: String? = nil, remembered: StoreContents.ActiveChoice? = nil
    ) -> UserRegistry {
        UserRegistry(
            users, identities: ["demo": false], configuredActive: active, remembered: remembered, activatesNext: false,
            names: names)
    }

    /// - Parameter present: the users with their origins; all have alice's unless told otherwise.
    private func reload(
        _ users: [(String, UserOrigin)], from registry: UserRegistry, present: [String: UserOrigin] = [:],
        former: [String]? = nil, app: String = "app", stored: [StoredUser] = [], active: String? = nil,
        hasIdentity: Bool = true
    ) -> UserReload {
        let known = registry.users + registry.hidden
        let identity = UserReload.Identity(
            stored: Self.identity("demo", app), refreshTokens: RefreshTokenSettings(),
            source: ObjectIdentifier(app == "app" ? demo : moved))
        let configured = former ?? known.filter(\.isConfigured).map(\.name)
        return UserReload(
            users: users.map { (name: $0.0, origin: $0.1) }, identities: hasIdentity ? ["demo": identity] : [:],
            configuredActive: active, activatesNext: false,
            present: Dictionary(
                uniqueKeysWithValues: known.map {
                    (
                        $0.index,
                        present[$0.name] ?? origin($0.isConfigured ? Self.login : nil, isAdded: !$0.isConfigured)
                    )
                }),
            former: Dictionary(uniqueKeysWithValues: configured.map { ($0, present[$0] ?? origin()) }),
            stored: Dictionary(uniqueKeysWithValues: stored.map { ($0.name, $0) }))
    }

    private func words(_ steps: [UserReload.Step]) -> [String] {
        steps.map { step in
            switch step {
            case .add(let user): "add \(user.name)"
            case .replace(let user): "replace \(user.name)"
            case .update(let user): "update \(user.name)"
            case .retire(let user): "retire \(user.name)"
            }
        }
    }

    private func stored(_ name: String, app: String = "app", isAdded: Bool = false) -> StoredUser {
        var user = StoredUser(name: name, of: Self.identity("demo", app))
        (user.accountID, user.isAdded) = ("account-\(name)", isAdded)
        return user
    }

    @Test("the same configuration changes nothing and reads nothing")
    func same() {
        var registry = registry([user("alice"), user("bob")])
        let reload = reload([("alice", origin()), ("bob", origin())], from: registry)
        let before = registry.users
        #expect(registry.namesToRead(for: reload).isEmpty && registry.obstacles(to: reload).isEmpty)
        #expect(registry.apply(reload).isEmpty)
        #expect(registry.users == before && registry.active == UserIndex(0))
    }

    @Test("no two sets of shown users have one revision, also across reloads: the report would keep the former users")
    func revisions() {
        var registry = registry([user("alice"), user("bob")])
        var revisions = [registry.shownRevision]
        for name in ["carol", "bob", "dave"] {
            _ = registry.apply(reload([("alice", origin()), (name, origin())], from: registry))
            #expect(registry.shown.count == 2 && !revisions.contains(registry.shownRevision))
            revisions.append(registry.shownRevision)
            _ = registry.handle(.called(.remove(name), UserRegistry.UserCallID(UInt64(revisions.count))))
            #expect(registry.shown.count == 1 && !revisions.contains(registry.shownRevision))
            revisions.append(registry.shownRevision)
        }
    }

    @Test("a user is added at its place, with the account that the store holds of it")
    func added() {
        var registry = registry([user("alice"), user("zoe", isConfigured: false)])
        let reload = reload(
            [("carol", origin()), ("alice", origin())], from: registry, stored: [stored("carol")])
        #expect(registry.namesToRead(for: reload) == ["carol"])
        #expect(words(registry.apply(reload)) == ["add carol"])
        #expect(registry.users.map(\.name) == ["carol", "alice", "zoe"])
        #expect(registry["carol"]?.accountID == "account-carol" && registry["carol"]?.isAuthenticated == false)
        // The first configured user is the default.
        #expect(registry.active == names.index(of: "carol"))
    }

    @Test("an identity that comes back brings no second user of a name that has been added elsewhere since")
    func oneUserOfOneName() throws {
        var registry = registry([user("alice"), user("bob", isConfigured: false)])
        let gone = reload(
            [("alice", origin())], from: registry, stored: [stored("bob", isAdded: true)], hasIdentity: false)
        #expect(words(registry.apply(gone)) == ["retire bob"] && registry.unknownStoredUsers == ["bob"])
        registry.identities["demo"] = false
        let request = UserRegistry.UserCallID(1)
        _ = registry.handle(
            .called(.add(name: "bob", identity: "demo", RegistryDriver.email(), activates: false), request))
        _ = registry.handle(.loggedIn(request))
        #expect(registry.unknownStoredUsers.isEmpty)
        var back = reload([("alice", origin())], from: registry, stored: [stored("bob", isAdded: true)])
        back.identities["other"] = back.identities["demo"]
        #expect(registry.apply(back).isEmpty && registry.users.map(\.name) == ["alice", "bob"])
    }

    @Test("a removed user is unknown, and stays in the store; without a record nothing is left of it")
    func removed() {
        for stored in [[stored("bob")], []] {
            var registry = registry([user("alice"), user("bob")])
            let reload = reload([("alice", origin())], from: registry, stored: stored)
            #expect(registry.namesToRead(for: reload) == ["bob"])
            #expect(words(registry.apply(reload)) == ["retire bob"])
            #expect(registry.unknownStoredUsers == Set(stored.map(\.name)))
        }
    }

    @Test("a removed user whose login the admin API made stays as an added one, and comes back as a configured one")
    func passedOn() {
        var registry = registry([user("alice"), user("bob")])
        var reload = reload([("alice", origin())], from: registry, stored: [stored("bob", isAdded: true)])
        #expect(words(registry.apply(reload)) == ["update bob"])
        #expect(registry["bob"]?.isConfigured == false && registry["bob"]?.isAuthenticated == true)
        reload = self.reload([("bob", origin()), ("alice", origin())], from: registry)
        #expect(words(registry.apply(reload)) == ["update bob"])
        #expect(registry["bob"]?.isConfigured == true && registry.users.map(\.name) == ["bob", "alice"])
    }

    @Test("another login of the same service is an update, and another service a new user of the name")
    func changed() {
        var registry = registry([user("alice"), user("bob"), user("zoe", isConfigured: false)])
        let other = UserSettings.Login.apiKey("/k")
        let first = reload([("alice", origin(other)), ("bob", origin())], from: registry)
        #expect(words(registry.apply(first)) == ["update alice"])
        #expect(registry["alice"]?.configuredProvider == "api_key" && registry["alice"]?.isAuthenticated == true)
        let elsewhere = origin(app: "other", source: moved)
        let second = reload(
            [("alice", elsewhere), ("bob", elsewhere)], from: registry, app: "other", stored: [stored("alice")])
        #expect(words(registry.apply(second)) == ["replace alice", "replace bob", "replace zoe"])
        #expect(registry.users.allSatisfy { !$0.isAuthenticated && $0.accountID == nil })
    }

    @Test("users of the admin API leave with their identity, and come back with it")
    func identityGoes() {
        var registry = registry([user("zoe", isConfigured: false)])
        let record = stored("zoe", isAdded: true)
        let without = reload([], from: registry, stored: [record], hasIdentity: false)
        #expect(registry.namesToRead(for: without) == ["zoe"])
        #expect(words(registry.apply(without)) == ["retire zoe"])
        let with = reload([], from: registry, stored: [record])
        #expect(registry.namesToRead(for: with) == ["zoe"])
        #expect(words(registry.apply(with)) == ["add zoe"])
        #expect(registry["zoe"]?.isConfigured == false && registry.unknownStoredUsers.isEmpty)
    }

    @Test("a user that an operator has removed stays away until its entry changes")
    func removedByOperator() {
        var registry = registry([user("alice")])
        let same = reload([("alice", origin()), ("bob", origin())], from: registry, former: ["alice", "bob"])
        #expect(registry.apply(same).isEmpty && registry.users.map(\.name) == ["alice"])
        let other = origin(.apiKey("/k"))
        let changed = reload([("alice", origin()), ("bob", other)], from: registry, former: ["alice", "bob"])
        #expect(words(registry.apply(changed)) == ["add bob"])
    }

    @Test("the choice of an operator holds until active_user changes, or until the chosen user is gone")
    func active() {
        let chosen = StoreContents.ActiveChoice(user: "bob", configured: nil)
        var registry = registry([user("alice"), user("bob")], remembered: chosen)
        #expect(registry.active == names.index(of: "bob"))
        let both = [("alice", origin()), ("bob", origin())]
        _ = registry.apply(reload(both, from: registry, active: "alice"))
        #expect(registry.active == names.index(of: "alice"))
        _ = registry.apply(reload(both, from: registry))
        #expect(registry.active == names.index(of: "bob"))
        _ = registry.apply(reload([both[0]], from: registry))
        #expect(registry.active == names.index(of: "alice"))
    }

    @Test("a login of the admin API in progress is an obstacle for its own name, and for no other")
    func obstacles() {
        var registry = registry([user("alice")])
        let call = UserCall.add(name: "bob", identity: "demo", RegistryDriver.email())
        _ = registry.handle(.called(call, UserRegistry.UserCallID(1)))
        let alice = ("alice", origin())
        #expect(registry.obstacles(to: reload([alice, ("carol", origin())], from: registry)).isEmpty)
        for reload in [
            reload([alice, ("bob", origin())], from: registry), reload([alice], from: registry, hasIdentity: false),
        ] {
            let obstacles = registry.obstacles(to: reload)
            #expect(obstacles.count == 1 && obstacles[0].hasPrefix("users.bob: "), "\(obstacles)")
        }
        _ = registry.handle(.failed(UserRegistry.UserCallID(1), .noCredential))
        // Its runner still has work.
        #expect(registry.obstacles(to: reload([alice, ("bob", origin())], from: registry)).count == 1)
        _ = registry.handle(.removalCompleted(names.index(of: "bob")))
        #expect(registry.obstacles(to: reload([alice, ("bob", origin())], from: registry)).isEmpty)
    }

    @Test("a login in progress stands in the way of another service, and not of another login")
    func loginUnderWay() {
        var registry = registry([user("alice")])
        _ = registry.handle(
            .called(.login("alice", RegistryDriver.email()), UserRegistry.UserCallID(1)))
        let other = origin(.apiKey("/k"))
        #expect(registry.obstacles(to: reload([("alice", other)], from: registry)).isEmpty)
        let elsewhere = origin(app: "other", source: moved)
        let count = names.count
        let refused = reload([("alice", elsewhere), ("carol", elsewhere)], from: registry, app: "other")
        #expect(registry.obstacles(to: refused).count == 1)
        // A route that pins carol is still refused, because no user of that name comes.
        #expect(names.count == count)
    }
}
