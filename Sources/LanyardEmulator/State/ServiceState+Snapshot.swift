import Foundation

/// Keeping the state across starts.
extension ServiceState {
    /// What a snapshot holds. Configuration, settings, counts and the journal are not in it.
    private struct Snapshot: Codable {
        static let version = 1

        var version = Self.version
        /// The key that signs tokens.
        let key: [UInt8]
        /// By client app id.
        let apps: [String: AppAccounts]
        let sessions: [EmulatorSession]
        let endedSessions: [EmulatorSession]
        let sessionCount: Int
        /// In the order of their issue.
        let tokens: [IssuedToken]
        let mailbox: Mailbox
        /// The OAuth side, and its key in PEM; nil: there is none.
        var oauth: OAuthState.Records?
        var oauthKey: String?
    }

    /// Why a snapshot cannot be read or written. A type of its own, because it is for the developer.
    struct SnapshotError: Error, CustomStringConvertible {
        let description: String
    }

    /// JSON.
    func snapshot() -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let snapshot = Snapshot(
            key: tokenIssuer.key,
            apps: Dictionary(uniqueKeysWithValues: apps.map { ($0.settings.appID, $0.accounts) }),
            sessions: sessions.values.sorted { $0.number < $1.number }, endedSessions: endedSessions,
            sessionCount: sessionCount, tokens: issueOrder.compactMap { issued[$0] }, mailbox: mailbox,
            oauth: oauth?.records, oauthKey: oauth?.key.pem)
        // Only a number that is not finite could fail, and no member can be one.
        return (try? encoder.encode(snapshot)) ?? Data()
    }

    /// Replaces the state. Apps of the snapshot that are not configured are left out, and users of the configuration are added.
    func restore(_ bytes: [UInt8]) throws {
        let snapshot = try JSONDecoder().decode(Snapshot.self, from: Data(bytes))
        guard snapshot.version == Snapshot.version else {
            throw SnapshotError(description: "version \(snapshot.version), expected \(Snapshot.version)")
        }
        tokenIssuer = TokenIssuer(key: snapshot.key)
        for app in apps.indices {
            apps[app].accounts = snapshot.apps[apps[app].settings.appID] ?? AppAccounts()
            Self.add(apps[app].settings.users, apps[app].settings.keys, to: &apps[app])
        }
        sessions = Dictionary(snapshot.sessions.map { ($0.id, $0) }) { first, _ in first }
        endedSessions = snapshot.endedSessions
        sessionCount = snapshot.sessionCount
        issued = Dictionary(snapshot.tokens.map { ($0.id, $0) }) { first, _ in first }
        issueOrder = snapshot.tokens.map(\.id)
        mailbox = snapshot.mailbox
        guard let records = snapshot.oauth else { return }
        oauth?.records = records
        // A configured key stays.
        if oauth?.settings.signingKey == nil, let key = snapshot.oauthKey.flatMap(SigningKey.init(pem:)) {
            oauth?.key = key
        }
    }

    /// Reads the file of the options, if there is one.
    func loadSnapshot() throws {
        guard let path = options.snapshotPath, FileManager.default.fileExists(atPath: path) else { return }
        do {
            try restore(SeedFiles.bytes(path))
        } catch {
            throw SnapshotError(description: "\(path): no snapshot: \(error)")
        }
    }

    /// Writes the file of the options: a new file of mode 0600, then a rename.
    func writeSnapshot() throws {
        guard let path = options.snapshotPath else { return }
        let temporary = path + ".new"
        let data = snapshot()
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw SnapshotError(description: "\(temporary): \(String(cString: strerror(errno)))")
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        try file.write(contentsOf: data)
        try file.close()
        guard rename(temporary, path) == 0 else {
            throw SnapshotError(description: "\(path): \(String(cString: strerror(errno)))")
        }
    }
}
