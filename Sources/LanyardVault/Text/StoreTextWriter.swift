import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Writes a store's text. Integers are big-endian. A value of variable length is preceded by its length.
struct StoreTextWriter: ~Copyable {
    private var bytes = SecretBuffer(capacity: 4096)

    /// Bytes so far.
    var byteCount: Int { bytes.count }

    consuming func finish() -> Secret { bytes.seal() }

    mutating func write(_ contents: StoreContents) throws(StoreText.FormatError) {
        let version = StoreText.version(for: contents)
        integer(UInt16(version))
        integer(contents.writes)
        try write(fingerprintKey: contents.fingerprintKey)
        try count(contents.users.count, "users")
        for user in contents.users { try write(user) }
        try write(contents.active)
        try count(contents.revocations.count, "revocations")
        for revocation in contents.revocations {
            try write(revocation, version)
        }
        guard version >= 5 else { return }
        try count(contents.metadata.count, "servers' metadata")
        for metadata in contents.metadata { try write(metadata) }
    }

    mutating func write(fingerprintKey key: Secret) throws(StoreText.FormatError) {
        guard key.count == StoreText.fingerprintKeyByteCount else { throw .tooLarge("its fingerprint key") }
        key.withBytes { bytes.append($0) }
    }

    mutating func write(_ revocation: StoredRevocation, _ version: Int) throws(StoreText.FormatError) {
        var flags: StoreText.RevocationFlags = []
        if revocation.fingerprint != nil { flags.insert(.identityFingerprint) }
        if revocation.kind == .accessToken { flags.insert(.accessToken) }
        if revocation.isByOperator { flags.insert(.byOperator) }
        if version >= 2 { bytes.append(flags.rawValue) }
        try text(revocation.identity)
        try secret(revocation.token)
        time(revocation.since)
        try write(revocation.fingerprint)
    }

    mutating func write(_ metadata: StoredMetadata) throws(StoreText.FormatError) {
        var flags: StoreText.MetadataFlags = []
        if metadata.requiresPushedAuthorization { flags.insert(.requiresPushedAuthorization) }
        if metadata.sendsIssuer { flags.insert(.sendsIssuer) }
        bytes.append(flags.rawValue)
        try text(metadata.issuer)
        try text(metadata.url)
        time(metadata.readAt)
        try write(metadata.endpoints)
        try write(metadata.aliases)
    }

    private mutating func write(_ endpoints: OAuthEndpoints) throws(StoreText.FormatError) {
        let named = StoreText.EndpointFlags.paths.enumerated().filter { endpoints[keyPath: $1] != nil }
        bytes.append(named.reduce(0) { $0 | 1 << $1.offset })
        for (_, path) in named { try text(endpoints[keyPath: path] ?? "") }
    }

    mutating func write(_ user: StoredUser) throws(StoreText.FormatError) {
        var flags: StoreText.UserFlags = []
        if user.isAdded { flags.insert(.isAdded) }
        if user.isLoggedOut { flags.insert(.isLoggedOut) }
        if user.session != nil { flags.insert(.session) }
        if user.accountID != nil { flags.insert(.account) }
        if user.provider != nil { flags.insert(.provider) }
        if user.accountSince != nil { flags.insert(.accountSince) }
        if user.intent != nil { flags.insert(.intent) }
        if user.refused != nil { flags.insert(.refused) }
        if user.identityFingerprint != nil { flags.insert(.identityFingerprint) }
        if user.refused?.code != nil { flags.insert(.refusedCode) }
        if user.subject != nil { flags.insert(.subject) }
        if user.refused?.clientTries != nil { flags.insert(.clientTries) }
        integer(flags.rawValue)
        try text(user.name)
        try text(user.identity)
        integer(user.generation.number)
        if let session = user.session { try write(session) }
        if let account = user.accountID { try text(account) }
        if let provider = user.provider { try text(provider) }
        if let since = user.accountSince { time(since) }
        if let intent = user.intent {
            bytes.append(intent.kind == .login ? 1 : 2)
            time(intent.at)
            integer(UInt16(clamping: intent.tries))
        }
        if let refused = user.refused {
            guard refused.bytes.count == StoreText.credentialFingerprintByteCount else {
                throw .tooLarge("a credential's fingerprint")
            }
            for byte in refused.bytes { bytes.append(byte) }
        }
        try write(user.identityFingerprint)
        if let code = user.refused?.code { try text(code) }
        if let subject = user.subject { try text(subject) }
        if let tries = user.refused?.clientTries {
            integer(UInt16(clamping: tries.count))
            time(tries.at)
        }
    }

    private mutating func write(_ fingerprint: IdentityFingerprint?) throws(StoreText.FormatError) {
        guard let fingerprint else { return }
        guard fingerprint.bytes.count == StoreText.identityFingerprintByteCount else {
            throw .tooLarge("an identity's fingerprint")
        }
        for byte in fingerprint.bytes { bytes.append(byte) }
    }

    private mutating func write(_ session: StoredSession) throws(StoreText.FormatError) {
        var flags: StoreText.SessionFlags = []
        if session.refresh != nil { flags.insert(.refresh) }
        if session.refreshExpiry != nil { flags.insert(.refreshExpiry) }
        if !session.tokens.others.isEmpty { flags.insert(.variants) }
        if session.hasRotated { flags.insert(.hasRotated) }
        if session.account != nil { flags.insert(.account) }
        if session.grantedScopes != nil { flags.insert(.grantedScopes) }
        if session.hasMadeLastTry { flags.insert(.hasMadeLastTry) }
        if !session.blockedVariants.isEmpty { flags.insert(.blockedVariants) }
        bytes.append(flags.rawValue)
        integer(session.id)
        try secret(session.access)
        if let refresh = session.refresh { try secret(refresh) }
        if let expiry = session.refreshExpiry { time(expiry) }
        try writeAge(session.tokens.plain)
        if flags.contains(.variants) { try write(session.tokens.others) }
        if let account = session.account {
            guard account.bytes.count == StoreText.accountFingerprintByteCount else {
                throw .tooLarge("an account's fingerprint")
            }
            for byte in account.bytes { bytes.append(byte) }
        }
        if let scopes = session.grantedScopes { try texts(scopes, "granted scopes") }
        if flags.contains(.blockedVariants) { try write(session.blockedVariants) }
    }

    private mutating func write(_ blocks: [VariantMark: VariantBlock]) throws(StoreText.FormatError) {
        try count(blocks.count, "variants that are not fetched")
        for (mark, block) in blocks.sorted(by: { $0.key < $1.key }) {
            guard mark.bytes.count == StoreText.variantMarkByteCount else { throw .tooLarge("a variant's mark") }
            for byte in mark.bytes { bytes.append(byte) }
            bytes.append(block.rawValue)
        }
    }

    private mutating func write(_ tokens: [TokenVariant: StoredAccessToken]) throws(StoreText.FormatError) {
        try count(tokens.count, "tokens of a session")
        for (variant, token) in tokens.sorted(by: { $0.key < $1.key }) {
            try write(variant)
            try secret(token.token)
            try writeAge(token)
        }
    }

    private mutating func write(_ variant: TokenVariant) throws(StoreText.FormatError) {
        bytes.append(variant.audience == nil ? 0 : StoreText.VariantFlags.audience.rawValue)
        if let audience = variant.audience { try text(audience) }
        try texts(Set(variant.resources), "resources")
        try texts(Set(variant.scopes), "scopes")
    }

    /// Texts in order, each once.
    private mutating func texts(_ texts: Set<String>, _ what: String) throws(StoreText.FormatError) {
        try count(texts.count, what)
        for value in texts.sorted() { try text(value) }
    }

    private mutating func writeAge(_ token: StoredAccessToken) throws(StoreText.FormatError) {
        time(token.issuedAt)
        try text(token.issuedAtBoot.boot)
        integer(UInt64(bitPattern: token.issuedAtBoot.instant.nanoseconds))
        integer(UInt64(bitPattern: token.lifetime.nanoseconds))
    }

    mutating func write(_ active: StoreContents.ActiveChoice?) throws(StoreText.FormatError) {
        var flags: StoreText.ActiveFlags = []
        if active != nil { flags.insert(.isChosen) }
        if active?.user != nil { flags.insert(.user) }
        if active?.configured != nil { flags.insert(.configured) }
        bytes.append(flags.rawValue)
        if let user = active?.user { try text(user) }
        if let configured = active?.configured { try text(configured) }
    }

    // MARK: Values

    mutating func byte(_ value: UInt8) { bytes.append(value) }

    mutating func integer(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append($0) }
    }

    private mutating func time(_ time: WallTime) { integer(UInt64(bitPattern: time.nanoseconds)) }

    mutating func count(_ count: Int, _ what: String) throws(StoreText.FormatError) {
        guard let short = UInt16(exactly: count) else { throw .tooLarge("more than 65,535 \(what)") }
        integer(short)
    }

    mutating func text(_ text: String) throws(StoreText.FormatError) {
        guard text.utf8.count <= StoreText.textBytesMax else { throw .tooLarge("a text of \(text.utf8.count) bytes") }
        integer(UInt16(text.utf8.count))
        bytes.append(text)
    }

    private mutating func secret(_ secret: Secret) throws(StoreText.FormatError) {
        guard secret.count <= StoreText.secretBytesMax else { throw .tooLarge("a token of \(secret.count) bytes") }
        integer(UInt32(secret.count))
        secret.withBytes { bytes.append($0) }
    }
}
