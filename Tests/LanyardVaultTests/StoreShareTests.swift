import Logging
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSettings
@testable import LanyardVault

/// What each identity gets of a store (security-defences.md, "What identities share").
@Suite struct StoreShareTests {
    private static func login(_ identity: String, _ id: UInt64, bytes: Int) -> StoreChange.StoredLogin {
        StoreChange.StoredLogin(
            identity: identity,
            session: StoreSamples.session(id, access: String(repeating: "a", count: bytes), refresh: "r\(id)"),
            accountID: nil, provider: nil, isAdded: false, configured: [])
    }

    private static func save(_ identity: String, _ user: String, _ id: UInt64 = 2, bytes: Int = 65_000) -> StoreChange {
        .saveSession(user: user, login(identity, id, bytes: bytes), base: .absent)
    }

    /// A store that the users of one identity have filled up to its share, with the number of its users.
    private static func filled(_ file: StoreFile) throws -> Int {
        _ = try file.begin()
        let changes = (0..<300).map { save("hostile", "user-\($0)") }
        let outcomes = try file.commitEach(changes, now: .now)
        let stored = outcomes.count { (try? $0.get()) != nil }
        for outcome in outcomes {
            if case .failure(let error) = outcome { #expect(error.kind == .shareFull) }
        }
        return stored
    }

    @Test("the bytes that are counted are those of the text", arguments: [1, 4, 5, 6, 7])
    func counted(_ version: Int) throws {
        let contents =
            switch version {
            case 4: StoreSamples.version4
            case 5: StoreSamples.version5
            case 6: StoreSamples.version6
            case 7: StoreSamples.version7
            default: StoreSamples.contents
            }
        var empty = contents
        (empty.users, empty.revocations) = ([], [])
        let text = try StoreText.write(contents).count - StoreText.write(empty).count
        let counted = contents.bytesOfIdentities
        // Without the records the text is of an earlier version, which has no number of metadata.
        #expect((text - 2)...(text + 16 * (contents.users.count + contents.revocations.count)) ~= counted)
    }

    @Test("an identity that fills a store leaves room for the tokens of another one, which rotate")
    func otherIdentity() throws {
        let folder = try TemporaryFolder()
        let file = try StoreSamples.file(folder.file("sessions"), room: 16 << 20)
        let stored = try Self.filled(file)
        #expect(200...245 ~= stored, "\(stored)")
        guard case .stored(let user?) = try file.commit([Self.save("good", "alice", bytes: 30_000)], now: .now)[0]
        else { return #expect(Bool(false), "the other identity is not stored") }
        var next = Self.login("good", 2, bytes: 40_000)
        next.session.refresh = StoreSamples.secret("rotated")
        let change = StoreChange.saveSession(user: "alice", next, base: user.version)
        // In one write with a change of the identity that is full.
        let outcomes = try file.commitEach([Self.save("hostile", "one-more"), change], now: .now)
        #expect(throws: StoreError.self) { try outcomes[0].get() }
        #expect(throws: Never.self) { try outcomes[1].get() }
        #expect(try file.read()["alice"]?.session?.refresh == StoreSamples.secret("rotated"))
        // What does not grow is stored for the full one, too.
        let kept = try #require(try file.read()["user-0"])
        let same = StoreChange.saveSession(
            user: "user-0", Self.login("hostile", 2, bytes: 65_000), base: kept.version)
        #expect(throws: Never.self) { try file.commit([same], now: .now) }
    }

    @Test("revocations: one for each user of the identity and 64 more, automatic ones given up first")
    func revocations() throws {
        let folder = try TemporaryFolder()
        let file = try StoreSamples.file(folder.file("sessions"))
        _ = try file.begin()
        _ = try file.commit(
            [Self.save("hostile", "alice", bytes: 100), Self.save("good", "bob", bytes: 100)], now: .now)
        func revocation(_ name: String, of identity: String) -> StoredRevocation {
            StoredRevocation(identity: identity, token: StoreSamples.secret(name), since: WallTime(nanoseconds: 1))
        }
        let asked = revocation("asked", of: "hostile").byOperator
        let other = revocation("other", of: "good")
        _ = try file.commit([.addRevocation(asked), .addRevocation(other)], now: .now)
        for number in 0..<100 {
            _ = try file.commit([.addRevocation(revocation("token-\(number)", of: "hostile"))], now: .now)
        }
        let found = try file.read().revocations
        #expect(found.count == 1 + StoreShare.spareRevocationsMax + 1)
        #expect(found.contains(asked) && found.contains(other) && found.contains(revocation("token-99", of: "hostile")))
    }

    @Test("a value that the text cannot hold fails alone: changes that wait beside it are stored")
    func poison() async throws {
        let folder = try TemporaryFolder()
        let store = try #require(
            try OpenedStore.open(try StoreSamples.file(folder.file("sessions"))).store(log: .init(label: "test"))
                as? SealedStore)
        var bad = Self.login("hostile", 9, bytes: 10)
        bad.accountID = String(repeating: "x", count: 2000)
        let results = Guarded<[String: Bool]>([:])
        let changes: [(String, StoreChange)] =
            (0..<5).map { ("user-\($0)", Self.save("good", "user-\($0)", bytes: 10)) }
            + [("bad", .saveSession(user: "bad", bad, base: .absent))]
            + (5..<9).map { ("user-\($0)", Self.save("good", "user-\($0)", bytes: 10)) }
        for (name, change) in changes {
            store.commit(change) { result in
                let isStored = (try? result.get()) != nil
                results.withLock { $0[name] = isStored }
            }
        }
        try await eventually("all have a result") { results.withLock { $0.count } == changes.count }
        for (name, isStored) in results.withLock({ $0 }) { #expect(isStored == (name != "bad"), "\(name)") }
        store.close()
    }
}
