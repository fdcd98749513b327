/// Writes a store's text. Integers are big-endian; what has a length carries it in front.
struct StoreTextWriter: ~Copyable {
    private var bytes = SecretBuffer(capacity: 4096)

    consuming func finish() -> Secret { bytes.seal() }

    mutating func write(_ contents: StoreContents) throws(StoreText.Problem) {
        let isSecond = StoreText.needsSecond(contents)
        integer(UInt16(isSecond ? 2 : 1))
        integer(contents.writes)
        guard contents.markKey.count == StoreText.markKeyByteCount else { throw .tooLarge("its mark key") }
        contents.markKey.withBytes { bytes.append($0) }
        try count(contents.users.count, "users")
        for user in contents.users { try write(user) }
        try write(contents.active)
        try count(contents.revocations.count, "revocations")
        for revocation in contents.revocations {
            if isSecond { bytes.append(revocation.mark == nil ? 0 : StoreText.RevocationFlags.identityMark.rawValue) }
            try text(revocation.identity)
            try secret(revocation.refresh)
            time(revocation.since)
            try write(revocation.mark)
        }
    }

    private mutating func write(_ user: StoredUser) throws(StoreText.Problem) {
        var flags: StoreText.UserFlags = []
        if user.isAdded { flags.insert(.isAdded) }
        if user.isLoggedOut { flags.insert(.isLoggedOut) }
        if user.session != nil { flags.insert(.session) }
        if user.accountID != nil { flags.insert(.account) }
        if user.provider != nil { flags.insert(.provider) }
        if user.accountSince != nil { flags.insert(.accountSince) }
        if user.intent != nil { flags.insert(.intent) }
        if user.refused != nil { flags.insert(.refused) }
        if user.identityMark != nil { flags.insert(.identityMark) }
        if user.refused?.code != nil { flags.insert(.refusedCode) }
        integer(flags.rawValue)
        try text(user.name)
        try text(user.identity)
        integer(user.generation)
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
            guard refused.bytes.count == StoreText.markByteCount else { throw .tooLarge("a credential's mark") }
            for byte in refused.bytes { bytes.append(byte) }
        }
        try write(user.identityMark)
        if let code = user.refused?.code { try text(code) }
    }

    private mutating func write(_ mark: IdentityMark?) throws(StoreText.Problem) {
        guard let mark else { return }
        guard mark.bytes.count == StoreText.identityMarkByteCount else { throw .tooLarge("an identity's mark") }
        for byte in mark.bytes { bytes.append(byte) }
    }

    private mutating func write(_ session: StoredSession) throws(StoreText.Problem) {
        var flags: StoreText.SessionFlags = []
        if session.refresh != nil { flags.insert(.refresh) }
        if session.refreshExpiry != nil { flags.insert(.refreshExpiry) }
        bytes.append(flags.rawValue)
        integer(session.id)
        try secret(session.access)
        if let refresh = session.refresh { try secret(refresh) }
        if let expiry = session.refreshExpiry { time(expiry) }
        time(session.issuedAt)
        try text(session.issuedAtBoot.boot)
        integer(UInt64(bitPattern: session.issuedAtBoot.instant.nanoseconds))
        integer(UInt64(bitPattern: session.lifetime.nanoseconds))
    }

    private mutating func write(_ active: StoreContents.ActiveChoice?) throws(StoreText.Problem) {
        var flags: StoreText.ActiveFlags = []
        if active != nil { flags.insert(.isChosen) }
        if active?.user != nil { flags.insert(.user) }
        if active?.configured != nil { flags.insert(.configured) }
        bytes.append(flags.rawValue)
        if let user = active?.user { try text(user) }
        if let configured = active?.configured { try text(configured) }
    }

    // MARK: Values

    private mutating func integer(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append($0) }
    }

    private mutating func time(_ time: WallTime) { integer(UInt64(bitPattern: time.nanoseconds)) }

    private mutating func count(_ count: Int, _ what: String) throws(StoreText.Problem) {
        guard let short = UInt16(exactly: count) else { throw .tooLarge("more than 65,535 \(what)") }
        integer(short)
    }

    private mutating func text(_ text: String) throws(StoreText.Problem) {
        guard text.utf8.count <= StoreText.textBytesMax else { throw .tooLarge("a text of \(text.utf8.count) bytes") }
        integer(UInt16(text.utf8.count))
        bytes.append(text)
    }

    private mutating func secret(_ secret: Secret) throws(StoreText.Problem) {
        guard secret.count <= StoreText.secretBytesMax else { throw .tooLarge("a token of \(secret.count) bytes") }
        integer(UInt32(secret.count))
        secret.withBytes { bytes.append($0) }
    }
}
