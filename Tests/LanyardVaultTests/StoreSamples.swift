import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSettings
@testable import LanyardVault

/// Stores in miniature.
enum StoreSamples {
    static func secret(_ text: String) -> Secret {
        var text = text
        return text.withUTF8 { Secret(copying: UnsafeRawBufferPointer($0)) }
    }

    static func secret(_ bytes: some Sequence<UInt8>) -> Secret {
        Array(bytes).withUnsafeBytes { Secret(copying: $0) }
    }

    static let fingerprintKey = secret(0..<32)

    static func session(_ id: UInt64, access: String = "access", refresh: String? = "refresh") -> StoredSession {
        StoredSession(
            id: id, access: secret(access), refresh: refresh.map { secret($0) },
            refreshExpiry: WallTime(nanoseconds: 1_800_000_000_000_000_000),
            issuedAt: WallTime(nanoseconds: 1_700_000_000_000_000_001),
            issuedAtBoot: BootInstant(boot: "boot", instant: Instant(nanoseconds: 12345)), lifetime: .seconds(1800))
    }

    /// Has everything that contents can have; what the fixed vectors of `SealingTests` hold.
    static var contents: StoreContents {
        var contents = StoreContents(fingerprintKey: fingerprintKey)
        contents.writes = 7
        var alice = StoredUser(name: "alice", identity: "demo")
        alice.generation = 5
        alice.status = .active(session(0x0102_0304_0506_0708))
        alice.accountID = "5f0c"
        alice.provider = "email_password"
        alice.accountSince = WallTime(nanoseconds: -1)
        alice.intent = StoredIntent(kind: .refresh, at: WallTime(nanoseconds: 1_700_000_000_000_000_002), tries: 2)
        var bob = StoredUser(name: "bob.b", identity: "demo")
        bob.isAdded = true
        bob.status = .loggedOut
        bob.refused = CredentialFingerprint(bytes: [UInt8](repeating: 0xee, count: 32))
        contents.users = [alice, bob]
        contents.active = StoreContents.ActiveChoice(user: "alice", configured: "bob.b")
        contents.revocations = [
            StoredRevocation(identity: "demo", token: secret("old"), since: WallTime(nanoseconds: 3))
        ]
        return contents
    }

    /// A login or refresh of `user` that finds generation `base`.
    static func saveSession(
        _ user: String, session: StoredSession, base: SessionVersion = SessionVersion(session: 0, generation: 0)
    ) -> StoreChange {
        let login = StoreChange.StoredLogin(
            identity: "demo", session: session, accountID: nil, provider: nil, isAdded: false)
        return .saveSession(user: user, login, base: base)
    }

    static func text(_ secret: Secret?) -> String? { secret?.withBytes { String(decoding: $0, as: UTF8.self) } }

    /// Bytes of hexadecimal digits.
    static func bytes(_ hex: [String]) -> [UInt8] {
        let digits = hex.joined().utf8.map { UInt8($0 < 0x3a ? $0 - 0x30 : $0 - 0x57) }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    /// A store's file on a real disk, sealed with a key of 32 equal bytes.
    static func file(_ path: String, key: UInt8 = 1, room: Int = StoreShare.roomBytes) throws -> StoreFile {
        let path = try #require(StorePath(path))
        return StoreFile(
            path, on: try SystemDisk(folder: path.folder, makesFolder: false),
            sealing: AESSealing(StoreSecret(.key, secret([UInt8](repeating: key, count: 32)))),
            fingerprintKey: fingerprintKey, roomBytes: room)
    }

    /// A file of format 1 with these contents, as the release before wrote it.
    static func format1(_ contents: StoreContents, _ sealing: any Sealing) throws -> [UInt8] {
        try StoreText.write(contents).withBytes { try sealing.seal($0) }
    }

    /// A store's file as a process on a simulated machine sees it.
    static func file(on disk: any StoreDisk, key: UInt64 = 1) throws -> StoreFile {
        StoreFile(
            try #require(StorePath("/store/sessions")), on: disk, sealing: StandInSealing(key: key),
            fingerprintKey: fingerprintKey)
    }
}

extension SealedStore {
    /// Ends the store for a test: the product's own limit is far beyond what a test lasts.
    func close() { close(within: .seconds(3600)) }
}

extension StoreSamples {
    /// A session with tokens of three other variants.
    static var sessionWithVariants: StoredSession {
        func token(_ text: String, _ seconds: Int64) -> StoredAccessToken {
            StoredAccessToken(
                secret(text), issuedAt: WallTime(nanoseconds: 1_700_000_000_000_000_009),
                issuedAtBoot: BootInstant(boot: "boot", instant: Instant(nanoseconds: 9)), lifetime: .seconds(seconds))
        }
        let plain = session(11)
        return StoredSession(
            id: 11, access: plain.access, refresh: plain.refresh, refreshExpiry: plain.refreshExpiry,
            issuedAt: plain.issuedAt, issuedAtBoot: plain.tokens.plain.issuedAtBoot,
            lifetime: plain.tokens.plain.lifetime,
            others: [
                TokenVariant(audience: "orders"): token("for orders", 300),
                TokenVariant(scopes: ["read", "write"]): token("to write", 60),
                TokenVariant(resources: ["https://a.example", "https://b.example"], scopes: ["read"]): token("both", 5),
            ])
    }

    /// What `EarlierVersion/sessions` holds: a store of format version 2 with a user in each status.
    static var version2: StoreContents {
        let identity = StoredIdentity("demo", IdentityFingerprint(of: ["app_services", "demo", "http://127.0.0.1"]))
        func user(_ name: String, _ generation: Generation) -> StoredUser {
            var user = StoredUser(name: name, of: identity)
            user.generation = generation
            return user
        }
        var contents = StoreContents(fingerprintKey: fingerprintKey)
        contents.writes = 41
        var alice = user("alice", 5)
        alice.status = .active(session(11))
        alice.accountID = "a"
        alice.provider = "email_password"
        alice.accountSince = WallTime(nanoseconds: 1_699_000_000_000_000_000)
        alice.intent = StoredIntent(kind: .refresh, at: WallTime(nanoseconds: 1_700_000_000_000_000_002), tries: 2)
        var bob = user("bob", 6)
        bob.status = .active(session(12, refresh: nil))
        var carol = user("carol", 7)
        carol.status = .deleting(session(13))
        carol.isAdded = true
        var dave = user("dave", 8)
        dave.status = .loggedOut
        dave.accountID = "d"
        var erin = user("erin", 9)
        erin.refused = CredentialFingerprint(bytes: [UInt8](repeating: 0xee, count: 32), code: "InvalidPassword")
        var frank = user("frank", 10)
        frank.status = .active(session(14))
        frank.provider = "google"
        frank.refused = CredentialFingerprint(bytes: [UInt8](repeating: 0xdd, count: 32)).spent
        var grace = user("grace", 0)
        grace.intent = StoredIntent(kind: .login, at: WallTime(nanoseconds: 1_700_000_000_000_000_003), tries: 0)
        var heidi = user("heidi", 12)
        heidi.status = .loggedOut
        heidi.refused = CredentialFingerprint(bytes: [UInt8](repeating: 0xcc, count: 32))
        var ivan = user("ivan", 13)
        ivan.status = .active(session(15, refresh: nil))
        ivan.refused = CredentialFingerprint(bytes: [UInt8](repeating: 0xbb, count: 32), code: "AuthError")
        contents.users = [alice, bob, carol, dave, erin, frank, grace, heidi, ivan]
        contents.active = StoreContents.ActiveChoice(user: "alice", configured: nil)
        contents.revocations = [
            StoredRevocation(
                identity: "demo", token: secret("old"), since: WallTime(nanoseconds: 3),
                fingerprint: identity.fingerprint)
        ]
        return contents
    }

    /// What `StoreVectors.version4Text` holds: a session with other access tokens and one without, both with rotation, and
    /// a credential that has served its only login.
    static var version4: StoreContents {
        func fingerprint(_ byte: UInt8) -> IdentityFingerprint {
            IdentityFingerprint(bytes: [UInt8](repeating: byte, count: 32))
        }
        func user(_ name: String, _ generation: Generation, _ identity: UInt8) -> StoredUser {
            var user = StoredUser(name: name, of: StoredIdentity("idp", fingerprint(identity)))
            user.generation = generation
            return user
        }
        var contents = StoreContents(fingerprintKey: fingerprintKey)
        contents.writes = 9
        var alice = user("alice", 3, 0xaa)
        var first = sessionWithVariants
        first.hasRotated = true
        alice.status = .active(first)
        var bob = user("bob", 2, 0xbb)
        let plain = session(13, access: "a2", refresh: "r2")
        bob.status = .active(
            StoredSession(
                id: 13, access: plain.access, refresh: plain.refresh, refreshExpiry: nil,
                issuedAt: plain.tokens.plain.issuedAt, issuedAtBoot: plain.tokens.plain.issuedAtBoot,
                lifetime: plain.tokens.plain.lifetime, hasRotated: true))
        bob.refused = CredentialFingerprint(bytes: [UInt8](repeating: 0xee, count: 32)).spent
        contents.users = [alice, bob]
        contents.revocations = [
            StoredRevocation(
                identity: "idp", token: secret("old"), since: WallTime(nanoseconds: 3), fingerprint: fingerprint(0xcc)
            )
        ]
        return contents
    }

    /// What `StoreVectors.version5Text` holds: metadata with everything and with little.
    static var version5: StoreContents {
        var contents = StoreContents(fingerprintKey: fingerprintKey)
        contents.writes = 3
        var full = StoredMetadata(
            issuer: "https://idp.example/a", url: "https://10.0.0.7/a",
            readAt: WallTime(nanoseconds: 1_700_000_000_000_000_000),
            endpoints: OAuthEndpoints(token: "https://idp.example/token", revocation: "https://idp.example/revoke"),
            aliases: OAuthEndpoints(token: "https://mtls.idp.example/token"))
        full.endpoints.deviceAuthorization = "https://idp.example/device"
        full.endpoints.authorization = "https://idp.example/auth"
        full.endpoints.pushedAuthorization = "https://idp.example/par"
        (full.requiresPushedAuthorization, full.sendsIssuer) = (true, true)
        var small = StoredMetadata(
            issuer: "https://b.example", url: "https://b.example", readAt: WallTime(nanoseconds: -1),
            endpoints: OAuthEndpoints(token: "https://b.example/t"), aliases: OAuthEndpoints())
        small.endpoints.authorization = "https://b.example/a?x=1"
        contents.metadata = [full, small]
        return contents
    }

    /// A session of a known account with granted scopes after its last try, one whose login has granted none, and a login that
    /// was refused for its client.
    static var version7: StoreContents {
        var contents = StoreContents(fingerprintKey: fingerprintKey)
        contents.writes = 12
        var alice = StoredUser(name: "alice", identity: "idp")
        alice.generation = 3
        var first = session(11)
        first.account = AccountFingerprint(bytes: [UInt8](repeating: 0xac, count: 32))
        first.grantedScopes = ["write", "read"]
        first.hasMadeLastTry = true
        alice.status = .active(first)
        var bob = StoredUser(name: "bob", identity: "idp")
        bob.generation = 2
        var second = sessionWithVariants
        second.grantedScopes = []
        second.blockedVariants = [
            VariantMark(bytes: [UInt8](repeating: 0xb2, count: 32)): .narrowsSession,
            VariantMark(bytes: [UInt8](repeating: 0xb1, count: 32)): .endsSession,
        ]
        bob.status = .active(second)
        var carol = StoredUser(name: "carol", identity: "idp")
        carol.refused = CredentialFingerprint(
            bytes: [UInt8](repeating: 0xee, count: 32), code: "invalid_client",
            clientTries: ClientTries(count: 3, at: WallTime(nanoseconds: 1_700_000_000_000_000_000)))
        contents.users = [alice, bob, carol]
        return contents
    }

    /// Revocations of sessions that operators have ended.
    static var operators: StoreContents {
        var contents = StoreContents(fingerprintKey: fingerprintKey)
        contents.writes = 5
        contents.revocations = [
            StoredRevocation(identity: "idp", token: secret("asked"), since: WallTime(nanoseconds: 7)).byOperator,
            StoredRevocation(
                identity: "idp", token: secret("an access token"), kind: .accessToken, since: WallTime(nanoseconds: 8),
                fingerprint: IdentityFingerprint(bytes: [UInt8](repeating: 0xcc, count: 32))
            ).byOperator,
        ]
        return contents
    }

    /// A user whose account an ID token has named, and revocations of access tokens, beside metadata.
    static var version6: StoreContents {
        var contents = StoreContents(fingerprintKey: fingerprintKey)
        contents.writes = 8
        var carol = StoredUser(name: "carol", identity: "idp")
        carol.generation = 2
        carol.status = .active(
            StoredSession(
                id: 12, access: secret("access c"), refresh: nil, refreshExpiry: nil,
                issuedAt: WallTime(nanoseconds: 1_700_000_000_000_000_000),
                issuedAtBoot: BootInstant(boot: "boot", instant: Instant(nanoseconds: 12345)),
                lifetime: .seconds(1800)))
        carol.accountID = "c"
        carol.identityFingerprint = IdentityFingerprint(bytes: [UInt8](repeating: 0xbb, count: 32))
        carol.subject = "248289761001"
        contents.users = [carol]
        contents.revocations = [
            StoredRevocation(
                identity: "idp", token: secret("an access token"), kind: .accessToken, since: WallTime(nanoseconds: 4)),
            StoredRevocation(
                identity: "idp", token: secret("another"), kind: .accessToken, since: WallTime(nanoseconds: 5),
                fingerprint: IdentityFingerprint(bytes: [UInt8](repeating: 0xcc, count: 32))),
        ]
        contents.metadata = [
            StoredMetadata(
                issuer: "https://b.example", url: "https://b.example", readAt: WallTime(nanoseconds: 6),
                endpoints: OAuthEndpoints(token: "https://b.example/t"), aliases: OAuthEndpoints())
        ]
        return contents
    }
}
