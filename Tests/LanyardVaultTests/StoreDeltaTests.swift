import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSettings
@testable import LanyardVault

/// What a change has done can be taken back, and done again by who reads of it.
@Suite struct StoreDeltaTests {
    private static func change(_ contents: StoreContents, _ random: inout SeededGenerator) -> StoreChange {
        let name = "user-\(Int.random(in: 0..<8, using: &random))"
        let identity = StoredIdentity("identity-\(Int.random(in: 0..<2, using: &random))", nil)
        let user = contents[name]
        let base = Bool.random(using: &random) ? user?.version ?? .absent : .absent
        let id = UInt64.random(in: 1..<6, using: &random)
        let at = WallTime(nanoseconds: .random(in: 0..<9, using: &random))
        var end = StoreChange.SessionEnd(
            user?.version ?? .absent,
            revocations: [StoredRevocation(identity: identity.name, token: token(&random), since: at)], at: at)
        end.hasGivenUpToken = Bool.random(using: &random)
        switch Int.random(in: 0..<14, using: &random) {
        case 0:
            return .storeIntent(
                user: name, identity: identity, StoredIntent(kind: .refresh, at: at, tries: 1), base: base)
        case 1: return .clearIntent(user: name)
        case 2: return .dropRefreshToken(user: name, base: base)
        case 3:
            return .recordRefusal(
                user: name, identity: identity,
                CredentialFingerprint(bytes: [UInt8](repeating: UInt8(id), count: 32)), endedVersion: base)
        case 4: return .end(user: name, base: base)
        case 5: return .logOut(user: name, identity: identity, end)
        case 6: return .remove(user: name, end)
        case 7: return .activate(StoreContents.ActiveChoice(user: name, configured: nil))
        case 8:
            return .addRevocation(StoredRevocation(identity: identity.name, token: token(&random), since: at))
        case 9: return .removeRevocation(contents.revocations.randomElement(using: &random)?.token ?? token(&random))
        case 10:
            return .saveMetadata(
                StoredMetadata(
                    issuer: "i\(id)", url: "u", readAt: at, endpoints: OAuthEndpoints(), aliases: OAuthEndpoints()))
        case 11: return .beginDeletion(user: name, session: user?.session?.id ?? id)
        default:
            let login = StoreChange.StoredLogin(
                identity: identity.name, session: StoreSamples.session(id, refresh: "refresh-\(id)"),
                accountID: "account-\(Int.random(in: 0..<3, using: &random))", provider: "anonymous", isAdded: true)
            return .saveSession(user: name, login, base: base)
        }
    }

    private static func token(_ random: inout SeededGenerator) -> Secret {
        StoreSamples.secret("token-\(Int.random(in: 0..<20, using: &random))")
    }

    @Test("changes taken back leave the contents as they were, and their edits make the same of a copy")
    func thereAndBack() throws {
        var random = SeededGenerator(5454)
        var contents = StoreContents(fingerprintKey: StoreSamples.fingerprintKey)
        var copy = contents
        var kinds: [String: Int] = [:]
        for _ in 0..<6000 {
            let before = contents
            let change = Self.change(contents, &random)
            let (verdict, delta) = contents.merge(change, now: WallTime(nanoseconds: 5))
            kinds[String("\(verdict)".prefix(6)), default: 0] += 1
            #expect(delta.isEmpty == (contents == before))
            if !Self.isStored(verdict) { #expect(delta.isEmpty) }
            var undone = contents
            undone.takeBack(delta)
            #expect(undone == before && Self.totals(undone) == Self.totals(before))
            let text = try StoreRecordText.text(of: delta.steps.map(\.edit))
            try StoreRecordText.read(text) { item throws(StoreText.FormatError) in
                guard case .edit(let edit) = item, copy.make(edit) != nil else { throw .malformed(at: 0) }
            }
            #expect(copy == contents)
            // What is counted one by one is what a look at all counts.
            var counted = StoreContents(fingerprintKey: contents.fingerprintKey)
            (counted.users, counted.revocations) = (contents.users, contents.revocations)
            #expect(Self.totals(counted) == Self.totals(contents))
        }
        #expect(kinds.count >= 3 && contents.users.count > 4, "\(kinds)")
    }

    private static func isStored(_ verdict: StoreChange.Verdict) -> Bool {
        switch verdict {
        case .stored, .storedEnding: true
        case .overtaken, .inUse: false
        }
    }

    private static func totals(_ contents: StoreContents) -> [String: Int] {
        var totals = ["": contents.bytesOfIdentities]
        for identity in contents.identities { totals[identity] = contents.bytes(of: identity) }
        return totals
    }

    @Test("an edit that fits nothing is told")
    func unfit() {
        var contents = StoreSamples.contents
        #expect(contents.make(.user("nobody", nil)) == nil)
        #expect(contents.make(.removedRevocation(1)) == nil)
        #expect(contents.make(.removedRevocation(-1)) == nil)
        #expect(contents.make(.user("alice", contents["bob.b"])) == nil)
        #expect(contents == StoreSamples.contents)
    }
}
