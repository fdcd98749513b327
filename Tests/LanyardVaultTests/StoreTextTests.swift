import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSettings
@testable import LanyardVault

/// What stands under the seal.
@Suite struct StoreTextTests {
    private static func read(_ bytes: [UInt8]) throws -> StoreContents {
        try bytes.withUnsafeBytes { try StoreText.read($0) }
    }

    @Test("contents with everything in them are the bytes that docs/reference/store.md says, and come back")
    func vector() throws {
        #expect(try StoreText.write(StoreSamples.contents) == StoreSamples.secret(StoreVectors.text))
        #expect(try Self.read(StoreVectors.text) == StoreSamples.contents)
    }

    @Test("what version 1 has no place for makes version 2, whole and in every truncation")
    func second() throws {
        var contents = StoreSamples.contents
        contents.users[0].identityFingerprint = IdentityFingerprint(of: ["app_services", "demo", "http://x"])
        contents.users[1].refused?.code = "InvalidPassword"
        contents.revocations[0].fingerprint = IdentityFingerprint(of: ["other"])
        contents.revocations.append(
            StoredRevocation(identity: "demo", token: StoreSamples.secret("older"), since: WallTime(nanoseconds: 4)))
        let bytes = try StoreText.write(contents).withBytes { Array($0) }
        #expect(bytes.prefix(2) == [0, 2])
        #expect(try Self.read(bytes) == contents)
        for count in bytes.indices {
            #expect(throws: StoreText.FormatError.self, "\(count) bytes") { try Self.read(Array(bytes.prefix(count))) }
        }
        for place in bytes.indices {
            for value in [UInt8(0), 1, 2, 0x7f, 0x80, 0xff] where bytes[place] != value {
                var changed = bytes
                changed[place] = value
                guard let other = try? Self.read(changed) else { continue }
                #expect(try StoreText.write(other) == StoreSamples.secret(changed), "byte \(place)")
            }
        }
        // Version 2 without any need of it.
        #expect(throws: StoreText.FormatError.self) { try Self.read([0, 2] + StoreVectors.text.dropFirst(2)) }
    }

    @Test(
        "a session whose refresh token has rotated makes version 4, whole and in every truncation; version 3 has no place for it"
    )
    func fourth() throws {
        for var session in [StoreSamples.session(11), StoreSamples.sessionWithVariants] {
            var contents = StoreSamples.contents
            session.hasRotated = true
            contents.users[0].status = .active(session)
            let bytes = try StoreText.write(contents).withBytes { Array($0) }
            #expect(bytes.prefix(2) == [0, 4])
            #expect(try Self.read(bytes) == contents)
            for count in bytes.indices {
                #expect(throws: StoreText.FormatError.self, "\(count) bytes") {
                    try Self.read(Array(bytes.prefix(count)))
                }
            }
            #expect(throws: StoreText.FormatError.self) { try Self.read([0, 3] + bytes.dropFirst(2)) }
            // Version 4 without any need of it.
            session.hasRotated = false
            contents.users[0].status = .active(session)
            let former = try StoreText.write(contents).withBytes { Array($0) }
            #expect(throws: StoreText.FormatError.self) { try Self.read([0, 4] + former.dropFirst(2)) }
        }
    }

    @Test(
        "a revocation of an access token makes version 6, whole and in every truncation; version 5 has no place for it")
    func sixth() throws {
        #expect(try StoreText.write(StoreSamples.version6) == StoreSamples.secret(StoreVectors.version6Text))
        #expect(try Self.read(StoreVectors.version6Text) == StoreSamples.version6)
        for var contents in [StoreSamples.contents, StoreSamples.version5] {
            contents.revocations.append(
                StoredRevocation(
                    identity: "idp", token: StoreSamples.secret("access"), kind: .accessToken,
                    since: WallTime(nanoseconds: 4), fingerprint: IdentityFingerprint(of: ["other"])))
            let bytes = try StoreText.write(contents).withBytes { Array($0) }
            #expect(bytes.prefix(2) == [0, 6])
            #expect(try Self.read(bytes) == contents)
            for count in bytes.indices {
                #expect(throws: StoreText.FormatError.self, "\(count) bytes") {
                    try Self.read(Array(bytes.prefix(count)))
                }
            }
            #expect(throws: StoreText.FormatError.self) { try Self.read([0, 5] + bytes.dropFirst(2)) }
            // It keeps what an ID token calls an account, too.
            contents.revocations[contents.revocations.count - 1].kind = .refreshToken
            if !contents.users.isEmpty {
                contents.users[0].subject = "248289761001"
                let bytes = try StoreText.write(contents).withBytes { Array($0) }
                #expect(try bytes[1] == 6 && Self.read(bytes) == contents)
                contents.users[0].subject = nil
            }
            // Version 6 without any need of it.
            contents.revocations[contents.revocations.count - 1].kind = .refreshToken
            let former = try StoreText.write(contents).withBytes { Array($0) }
            #expect(former[1] < 6)
            #expect(throws: StoreText.FormatError.self) { try Self.read([0, 6] + former.dropFirst(2)) }
        }
    }

    @Test("an operator's revocation makes version 7, as another program wrote it, with every change of a byte")
    func operators() throws {
        let bytes = StoreVectors.operatorsText
        #expect(try StoreText.write(StoreSamples.operators) == StoreSamples.secret(bytes))
        #expect(try Self.read(bytes) == StoreSamples.operators)
        for place in bytes.indices {
            var changed = bytes
            changed[place] ^= 1
            if let other = try? Self.read(changed) {
                #expect(try StoreText.write(other) == StoreSamples.secret(changed), "byte \(place)")
            }
        }
        var contents = StoreSamples.operators
        for place in contents.revocations.indices { contents.revocations[place].isByOperator = false }
        #expect(try StoreText.write(contents).withBytes { $0[1] } == 6)
    }

    @Test(
        "account, granted scopes, last try and client tries make version 7, as another program wrote it, with every change of a byte"
    )
    func seventh() throws {
        let bytes = StoreVectors.version7Text
        #expect(try StoreText.write(StoreSamples.version7) == StoreSamples.secret(bytes))
        #expect(try Self.read(bytes) == StoreSamples.version7)
        for count in bytes.indices {
            #expect(throws: StoreText.FormatError.self, "\(count) bytes") { try Self.read(Array(bytes.prefix(count))) }
        }
        for place in bytes.indices {
            var changed = bytes
            changed[place] ^= 1
            if let other = try? Self.read(changed) {
                #expect(try StoreText.write(other) == StoreSamples.secret(changed), "byte \(place)")
            }
        }
        #expect(throws: StoreText.FormatError.self) { try Self.read([0, 6] + bytes.dropFirst(2)) }
        // Each of them makes version 7 alone. Without any of them it is no version 7.
        let edits: [(inout StoredSession) -> Void] = [
            { $0.account = AccountFingerprint(of: ["a"]) }, { $0.grantedScopes = [] }, { $0.hasMadeLastTry = true },
            { $0.blockedVariants = [VariantMark(of: .plain, request: nil): .endsSession] },
        ]
        var contents = StoreSamples.contents
        let former = try StoreText.write(contents).withBytes { Array($0) }
        #expect(throws: StoreText.FormatError.self) { try Self.read([0, 7] + former.dropFirst(2)) }
        for edit in edits {
            var session = StoreSamples.session(11)
            edit(&session)
            contents.users[0].status = .active(session)
            let bytes = try StoreText.write(contents).withBytes { Array($0) }
            #expect(try bytes[1] == 7 && Self.read(bytes) == contents)
        }
    }

    @Test("tokens of other variants make version 3, whole, in every truncation and with every single byte changed")
    func third() throws {
        var contents = StoreSamples.contents
        contents.users[0].status = .active(StoreSamples.sessionWithVariants)
        let bytes = try StoreText.write(contents).withBytes { Array($0) }
        #expect(bytes.prefix(2) == [0, 3])
        #expect(try Self.read(bytes) == contents)
        for count in bytes.indices {
            #expect(throws: StoreText.FormatError.self, "\(count) bytes") { try Self.read(Array(bytes.prefix(count))) }
        }
        for place in bytes.indices {
            for value in [UInt8(0), 1, 2, 4, 0x7f, 0x80, 0xff] where bytes[place] != value {
                var changed = bytes
                changed[place] = value
                guard let other = try? Self.read(changed) else { continue }
                #expect(try StoreText.write(other) == StoreSamples.secret(changed), "byte \(place)")
            }
        }
        // Two tokens in another order than the one in which they are written.
        let names = ["aaaa", "bbbb"].map { Array($0.utf8) }
        var session = StoreSamples.sessionWithVariants
        let token = session.tokens.plain
        session.tokens = StoredAccessTokens(
            plain: token,
            others: [TokenVariant(audience: "aaaa"): token, TokenVariant(audience: "bbbb"): token])
        contents.users[0].status = .active(session)
        var swapped = try StoreText.write(contents).withBytes { Array($0) }
        let places = try names.map { try #require(swapped.firstRange(of: $0)) }
        for (place, name) in zip(places, names.reversed()) { swapped.replaceSubrange(place, with: name) }
        #expect(throws: StoreText.FormatError.self) { try Self.read(swapped) }
        // Version 3 without any need of it.
        #expect(throws: StoreText.FormatError.self) { try Self.read([0, 3] + StoreVectors.text.dropFirst(2)) }
    }

    @Test("metadata makes version 5, as another program wrote it, in every truncation, with every single byte changed")
    func fifth() throws {
        let bytes = StoreVectors.version5Text
        #expect(try StoreText.write(StoreSamples.version5) == StoreSamples.secret(bytes))
        #expect(try Self.read(bytes) == StoreSamples.version5)
        for count in bytes.indices {
            #expect(throws: StoreText.FormatError.self, "\(count) bytes") { try Self.read(Array(bytes.prefix(count))) }
        }
        for place in bytes.indices {
            for value in [UInt8(0), 1, 2, 4, 32, 0x7f, 0x80, 0xff] where bytes[place] != value {
                var changed = bytes
                changed[place] = value
                guard let other = try? Self.read(changed) else { continue }
                #expect(try StoreText.write(other) == StoreSamples.secret(changed), "byte \(place)")
            }
        }
        var contents = StoreSamples.version5
        // Two of one server.
        contents.metadata[1].issuer = contents.metadata[0].issuer
        contents.metadata[1].url = contents.metadata[0].url
        #expect(throws: StoreText.FormatError.self) { try StoreText.write(contents) }
        // Version 5 without any need of it.
        let needless = [0, 5] + StoreVectors.text.dropFirst(2) + [0, 0]
        #expect(throws: StoreText.FormatError.self) { try Self.read(needless) }
    }

    @Test("the store has the latest metadata of each server, and of 64 servers at most")
    func metadata() {
        var contents = StoreSamples.version5
        var later = contents.metadata[0]
        later.readAt = later.readAt + .seconds(60)
        later.endpoints.token = "https://idp.example/moved"
        #expect(contents.apply(.saveMetadata(later), now: WallTime(nanoseconds: 0)) == .stored(nil))
        #expect(contents.metadata == [StoreSamples.version5.metadata[1], later])
        // Of a process that asked before.
        _ = contents.apply(.saveMetadata(StoreSamples.version5.metadata[0]), now: WallTime(nanoseconds: 0))
        #expect(contents.metadata == [StoreSamples.version5.metadata[1], later])
        for number in 0..<70 {
            var other = later
            other.url = "https://idp.example/\(number)"
            _ = contents.apply(.saveMetadata(other), now: WallTime(nanoseconds: 0))
        }
        #expect(contents.metadata.count == 64)
        #expect(contents.metadata.last?.url == "https://idp.example/69")
    }

    @Test("a variant is what was asked for, in whatever order; the plain one is never among the others")
    func variants() {
        let one = TokenVariant(audience: "a", resources: ["x", "y"], scopes: ["s", "t"])
        #expect(one == TokenVariant(audience: "a", resources: ["y", "x"], scopes: ["t", "s"]))
        #expect(TokenVariant(scopes: ["x"]) != TokenVariant(resources: ["x"]))
        #expect(TokenVariant(audience: "") != .plain)
        let session = StoreSamples.sessionWithVariants
        #expect(session.tokens[.plain]?.token == session.access)
        #expect(StoreSamples.text(session.tokens[TokenVariant(audience: "orders")]?.token) == "for orders")
        #expect(session.tokens[TokenVariant(audience: "other")] == nil)
        let others = [TokenVariant.plain: session.tokens.plain]
        #expect(StoredAccessTokens(plain: session.tokens.plain, others: others).others.isEmpty)
    }

    @Test("an empty store and one of a thousand users come back")
    func sizes() throws {
        let empty = StoreContents(fingerprintKey: StoreSamples.fingerprintKey)
        #expect(try StoreText.write(empty).withBytes { try StoreText.read($0) } == empty)
        var large = empty
        large.users = (0..<1000).map { index in
            var user = StoredUser(name: "user-\(index)", identity: "demo")
            user.status = .active(
                StoreSamples.session(UInt64(index + 1), access: String(repeating: "a", count: 1500)))
            return user
        }
        #expect(try StoreText.write(large).withBytes { try StoreText.read($0) } == large)
    }

    @Test("every truncation is refused, and so is a byte too many")
    func truncations() {
        for count in StoreVectors.text.indices {
            #expect(throws: StoreText.FormatError.self, "\(count) bytes") {
                try Self.read(Array(StoreVectors.text.prefix(count)))
            }
        }
        #expect(throws: StoreText.FormatError.malformed(at: StoreVectors.text.count)) {
            try Self.read(StoreVectors.text + [0])
        }
    }

    @Test("whatever single byte is changed, the text is refused or means exactly what it says")
    func changedBytes() throws {
        for place in StoreVectors.text.indices {
            for value in [UInt8(0), 1, 0x7f, 0x80, 0xff] where StoreVectors.text[place] != value {
                var bytes = StoreVectors.text
                bytes[place] = value
                guard let contents = try? Self.read(bytes) else { continue }
                #expect(try StoreText.write(contents) == StoreSamples.secret(bytes), "byte \(place)")
            }
        }
    }

    @Test("a later version is told from nonsense")
    func newer() {
        #expect(throws: StoreText.FormatError.newerVersion(8)) { try Self.read([0, 8]) }
        #expect(throws: StoreText.FormatError.malformed(at: 2)) { try Self.read([0, 0]) }
    }

    @Test("what could not be read again is not written", arguments: 0..<6)
    func unwritable(_ number: Int) {
        var contents = StoreSamples.contents
        switch number {
        case 0: contents.users[0].name = "a/b"
        case 1: contents.users[1].name = "alice"
        case 2: contents.users[0].status = .active(StoreSamples.session(0))
        case 3: contents.users[0].accountID = String(repeating: "a", count: 1025)
        case 4:
            let access = String(repeating: "a", count: 65537)
            contents.users[0].status = .active(StoreSamples.session(1, access: access))
        default:
            contents.revocations = (0..<300).map { _ in
                StoredRevocation(
                    identity: "demo", token: StoreSamples.secret([UInt8](repeating: 1, count: 65536)), since: .now)
            }
        }
        #expect(throws: StoreText.FormatError.self) { try StoreText.write(contents) }
    }
}
