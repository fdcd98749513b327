import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Reads a store's text, which the caller owns. Valid only while the text is.
struct StoreTextReader: ~Copyable {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0
    private var version = 0

    /// - Parameter version: of the text; 0: the text says it.
    init(_ bytes: UnsafeRawBufferPointer, version: Int = 0) {
        self.bytes = bytes
        self.version = version
    }

    mutating func read() throws(StoreText.FormatError) -> StoreContents {
        version = Int(try integer(UInt16.self))
        guard version <= StoreText.version else { throw .newerVersion(version) }
        guard version >= 1, bytes.count <= StoreText.bytesMax else { throw malformed }
        let writes = try integer(UInt64.self)
        var contents = StoreContents(fingerprintKey: try fingerprintKey())
        contents.writes = writes
        var names: Set<String> = []
        var users: [StoredUser] = []
        for _ in 0..<(try integer(UInt16.self)) {
            let user = try self.user()
            guard names.insert(user.name).inserted else { throw malformed }
            users.append(user)
        }
        contents.users = users
        contents.active = try active()
        var revocations: [StoredRevocation] = []
        for _ in 0..<(try integer(UInt16.self)) { revocations.append(try revocation()) }
        contents.revocations = revocations
        if version >= 5 { contents.metadata = try allMetadata() }
        // Contents are always written in the first version that can hold them.
        guard offset == bytes.count, version == StoreText.version(for: contents) else { throw malformed }
        return contents
    }

    mutating func fingerprintKey() throws(StoreText.FormatError) -> Secret {
        Secret(copying: try nextBytes(StoreText.fingerprintKeyByteCount))
    }

    /// One for each server.
    mutating func allMetadata() throws(StoreText.FormatError) -> [StoredMetadata] {
        var all: [StoredMetadata] = []
        for _ in 0..<(try integer(UInt16.self)) {
            let metadata = try metadata()
            guard !all.contains(where: { $0.isOfSameServer(as: metadata) }) else { throw malformed }
            all.append(metadata)
        }
        return all
    }

    mutating func revocation() throws(StoreText.FormatError) -> StoredRevocation {
        let flags = StoreText.RevocationFlags(rawValue: version == 1 ? 0 : try integer(UInt8.self))
        guard flags.isSubset(of: version < 6 ? .second : version == 6 ? .sixth : .all) else { throw malformed }
        var revocation = StoredRevocation(
            identity: try name(), token: try secret(),
            kind: flags.contains(.accessToken) ? .accessToken : .refreshToken,
            since: try time())
        if flags.contains(.identityFingerprint) { revocation.fingerprint = try identityFingerprint() }
        revocation.isByOperator = flags.contains(.byOperator)
        return revocation
    }

    private mutating func metadata() throws(StoreText.FormatError) -> StoredMetadata {
        let flags = StoreText.MetadataFlags(rawValue: try integer(UInt8.self))
        guard flags.isSubset(of: .all) else { throw malformed }
        var metadata = StoredMetadata(
            issuer: try text(), url: try text(), readAt: try time(), endpoints: try endpoints(),
            aliases: try endpoints())
        metadata.requiresPushedAuthorization = flags.contains(.requiresPushedAuthorization)
        metadata.sendsIssuer = flags.contains(.sendsIssuer)
        return metadata
    }

    private mutating func endpoints() throws(StoreText.FormatError) -> OAuthEndpoints {
        let flags = StoreText.EndpointFlags(rawValue: try integer(UInt8.self))
        guard flags.isSubset(of: .all) else { throw malformed }
        var endpoints = OAuthEndpoints()
        for (bit, path) in StoreText.EndpointFlags.paths.enumerated() where flags.rawValue & 1 << bit != 0 {
            endpoints[keyPath: path] = try text()
        }
        return endpoints
    }

    private mutating func identityFingerprint() throws(StoreText.FormatError) -> IdentityFingerprint {
        IdentityFingerprint(bytes: Array(try nextBytes(StoreText.identityFingerprintByteCount)))
    }

    mutating func user() throws(StoreText.FormatError) -> StoredUser {
        let flags = StoreText.UserFlags(rawValue: try integer(UInt16.self))
        guard flags.isSubset(of: .all(of: version)) else { throw malformed }
        guard flags.contains(.refused) || flags.isDisjoint(with: [.refusedCode, .clientTries]) else { throw malformed }
        var user = StoredUser(name: try name(), identity: try name())
        user.isAdded = flags.contains(.isAdded)
        user.generation = Generation(try integer(UInt64.self))
        user.status = try status(flags)
        if flags.contains(.account) { user.accountID = try text() }
        if flags.contains(.provider) { user.provider = try text() }
        if flags.contains(.accountSince) { user.accountSince = try time() }
        if flags.contains(.intent) { user.intent = try intent() }
        if flags.contains(.refused) {
            // A fingerprint is not secret: without the key it reveals nothing.
            user.refused = CredentialFingerprint(bytes: Array(try nextBytes(StoreText.credentialFingerprintByteCount)))
        }
        if flags.contains(.identityFingerprint) { user.identityFingerprint = try identityFingerprint() }
        if flags.contains(.refusedCode) { user.refused?.code = try text() }
        if flags.contains(.subject) { user.subject = try text() }
        if flags.contains(.clientTries) { user.refused?.clientTries = try clientTries() }
        return user
    }

    private mutating func clientTries() throws(StoreText.FormatError) -> ClientTries {
        let count = Int(try integer(UInt16.self))
        guard count > 0 else { throw malformed }
        return ClientTries(count: count, at: try time())
    }

    private mutating func status(_ flags: StoreText.UserFlags) throws(StoreText.FormatError) -> StoredUser.Status {
        guard flags.contains(.session) else { return flags.contains(.isLoggedOut) ? .loggedOut : .none }
        let session = try session()
        return flags.contains(.isLoggedOut) ? .deleting(session) : .active(session)
    }

    private mutating func session() throws(StoreText.FormatError) -> StoredSession {
        let flags = StoreText.SessionFlags(rawValue: try integer(UInt8.self))
        guard flags.isSubset(of: .all(of: version)) else { throw malformed }
        let id = try integer(UInt64.self)
        guard id != 0 else { throw malformed }
        let access = try secret()
        let refresh = flags.contains(.refresh) ? try secret() : nil
        let expiry = flags.contains(.refreshExpiry) ? try time() : nil
        let plain = try age(of: access)
        let others = flags.contains(.variants) ? try variants() : [:]
        var session = StoredSession(
            id: id, access: access, refresh: refresh, refreshExpiry: expiry, issuedAt: plain.issuedAt,
            issuedAtBoot: plain.issuedAtBoot, lifetime: plain.lifetime, others: others,
            hasRotated: flags.contains(.hasRotated))
        if flags.contains(.account) {
            session.account = AccountFingerprint(bytes: Array(try nextBytes(StoreText.accountFingerprintByteCount)))
        }
        if flags.contains(.grantedScopes) { session.grantedScopes = try texts() }
        session.hasMadeLastTry = flags.contains(.hasMadeLastTry)
        if flags.contains(.blockedVariants) { session.blockedVariants = try blockedVariants() }
        return session
    }

    /// At least one, in order, each once.
    private mutating func blockedVariants() throws(StoreText.FormatError) -> [VariantMark: VariantBlock] {
        let count = try integer(UInt16.self)
        guard count > 0 else { throw malformed }
        var blocks: [VariantMark: VariantBlock] = [:]
        var former: VariantMark?
        for _ in 0..<count {
            let mark = VariantMark(bytes: Array(try nextBytes(StoreText.variantMarkByteCount)))
            guard former.map({ $0 < mark }) ?? true, let block = VariantBlock(rawValue: try integer(UInt8.self)) else {
                throw malformed
            }
            (former, blocks[mark]) = (mark, block)
        }
        return blocks
    }

    private mutating func age(of token: Secret) throws(StoreText.FormatError) -> StoredAccessToken {
        let issuedAt = try time()
        let boot = try text()
        let instant = Instant(nanoseconds: Int64(bitPattern: try integer(UInt64.self)))
        let lifetime = Duration.nanoseconds(Int64(bitPattern: try integer(UInt64.self)))
        return StoredAccessToken(
            token, issuedAt: issuedAt, issuedAtBoot: BootInstant(boot: boot, instant: instant), lifetime: lifetime)
    }

    /// The tokens that are not plain: at least one, in the order of their variants.
    private mutating func variants() throws(StoreText.FormatError) -> [TokenVariant: StoredAccessToken] {
        let count = try integer(UInt16.self)
        guard count > 0 else { throw malformed }
        var tokens: [TokenVariant: StoredAccessToken] = [:]
        var former = TokenVariant.plain
        for _ in 0..<count {
            let variant = try variant()
            guard former < variant else { throw malformed }
            former = variant
            tokens[variant] = try age(of: try secret())
        }
        return tokens
    }

    private mutating func variant() throws(StoreText.FormatError) -> TokenVariant {
        let flags = StoreText.VariantFlags(rawValue: try integer(UInt8.self))
        guard flags.isSubset(of: .audience) else { throw malformed }
        let audience = flags.contains(.audience) ? try text() : nil
        let resources = try texts()
        return TokenVariant(audience: audience, resources: resources, scopes: try texts())
    }

    /// Texts in order, each once.
    private mutating func texts() throws(StoreText.FormatError) -> Set<String> {
        var texts: Set<String> = []
        var former: String?
        for _ in 0..<(try integer(UInt16.self)) {
            let next = try text()
            guard former.map({ $0 < next }) ?? true else { throw malformed }
            former = next
            texts.insert(next)
        }
        return texts
    }

    private mutating func intent() throws(StoreText.FormatError) -> StoredIntent {
        let kind = try integer(UInt8.self)
        guard kind == 1 || kind == 2 else { throw malformed }
        let at = try time()
        return StoredIntent(kind: kind == 1 ? .login : .refresh, at: at, tries: Int(try integer(UInt16.self)))
    }

    mutating func active() throws(StoreText.FormatError) -> StoreContents.ActiveChoice? {
        let flags = StoreText.ActiveFlags(rawValue: try integer(UInt8.self))
        guard flags.isSubset(of: .all), flags.isEmpty || flags.contains(.isChosen) else { throw malformed }
        guard flags.contains(.isChosen) else { return nil }
        let user = flags.contains(.user) ? try name() : nil
        return StoreContents.ActiveChoice(user: user, configured: flags.contains(.configured) ? try name() : nil)
    }

    // MARK: Values

    var isAtEnd: Bool { offset == bytes.count }

    var malformed: StoreText.FormatError { .malformed(at: offset) }

    /// The next bytes, lent.
    private mutating func nextBytes(_ count: Int) throws(StoreText.FormatError) -> UnsafeRawBufferPointer {
        guard count <= bytes.count - offset else { throw malformed }
        defer { offset += count }
        return UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + count)])
    }

    mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type) throws(StoreText.FormatError) -> Value {
        try nextBytes(MemoryLayout<Value>.size).reduce(0) { $0 << 8 | Value(truncatingIfNeeded: $1) }
    }

    private mutating func time() throws(StoreText.FormatError) -> WallTime {
        WallTime(nanoseconds: Int64(bitPattern: try integer(UInt64.self)))
    }

    private mutating func text() throws(StoreText.FormatError) -> String {
        let count = Int(try integer(UInt16.self))
        guard count <= StoreText.textBytesMax else { throw malformed }
        guard let text = String(validating: try nextBytes(count), as: UTF8.self) else { throw malformed }
        return text
    }

    mutating func name() throws(StoreText.FormatError) -> String {
        let text = try text()
        guard ConfiguredName.isValid(text) else { throw malformed }
        return text
    }

    private mutating func secret() throws(StoreText.FormatError) -> Secret {
        let count = Int(try integer(UInt32.self))
        guard count <= StoreText.secretBytesMax else { throw malformed }
        return Secret(copying: try nextBytes(count))
    }
}
