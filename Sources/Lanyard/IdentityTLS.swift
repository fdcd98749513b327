import LanyardAdmin
import LanyardConfiguration
import LanyardFoundations
import LanyardIdentity
import LanyardRequestPath
import LanyardSettings
import Logging

/// The TLS of all identities at the start or at a reload: what their files hold.
package struct IdentityTLS: Sendable {
    fileprivate struct Entry {
        let files: IdentityTLSFiles
        let read: TLSFileContents
        let contents: IdentityTLSContents
    }

    /// By the name of the identity. One without TLS files has no entry.
    fileprivate var entries: [String: Entry] = [:]
    /// Client certificates that identity services will refuse. An expired one does not prevent the start: other identities work.
    package private(set) var warnings: [ConfiguredFileWarning] = []

    /// Of no identity.
    init() {}

    /// Reads the files. Blocks as long as the disk does.
    ///
    /// - Throws: the first finding, with its identity.
    package init(_ identities: [IdentitySettings]) throws(ConfiguredFileError) {
        for identity in identities {
            guard let files = IdentityTLSFiles(identity) else { continue }
            do throws(TLSFileContents.FileError) {
                let read = try TLSFileContents(reading: files.paths)
                entries[identity.name] = Entry(files: files, read: read, contents: try files.contents(from: read))
                for (path, message) in files.warnings(in: read) {
                    warnings.append(.init(.identity(identity.name), path: path, message))
                }
            } catch {
                throw .init(.identity(identity.name), path: error.path, error.message)
            }
        }
    }

    /// With what others have found in the same files later.
    fileprivate func renewed(from others: [TLSFileContents]) -> IdentityTLS {
        var renewed = self
        for (name, entry) in entries {
            var read = entry.read
            guard !read.renew(from: others).isEmpty, let contents = try? entry.files.contents(from: read) else {
                continue
            }
            renewed.entries[name] = Entry(files: entry.files, read: read, contents: contents)
        }
        return renewed
    }

    /// Empty for an identity without TLS files.
    func contents(of identity: IdentitySettings) -> IdentityTLSContents {
        entries[identity.name]?.contents ?? IdentityTLSContents()
    }
}

/// The files behind the TLS of one identity and the credential for its proxy, and how they are checked.
private struct IdentityTLSFiles {
    private let caFile: String?
    let certificateFile: String?
    private let keyFile: String?
    private let proxyFile: String?

    /// nil: the identity has no such file, or calls no service.
    init?(_ settings: IdentitySettings) {
        if case .staticToken = settings.kind { return nil }
        (caFile, certificateFile, keyFile) = (settings.caFile, settings.certificateFile, settings.keyFile)
        proxyFile = settings.proxyCredentialsFile
        if paths.isEmpty { return nil }
    }

    /// All files, which are to be watched.
    var paths: [String] { [caFile, certificateFile, keyFile, proxyFile].compactMap(\.self) }

    /// What is wrong with the files although they can be used.
    func warnings(in contents: TLSFileContents) -> [(path: String, message: String)] {
        contents.warnings(chain: certificateFile, authorities: caFile)
    }

    /// What calls use. Certificate and key are checked as a pair.
    func contents(from read: TLSFileContents) throws(TLSFileContents.FileError) -> IdentityTLSContents {
        try read.checkClientFiles(caFile: caFile, certificateFile: certificateFile, keyFile: keyFile)
        let content = { (path: String?) in path.flatMap { read.byPath[$0] } }
        return IdentityTLSContents(
            authorities: content(caFile), certificate: content(certificateFile), key: content(keyFile),
            proxyAuthorization: try proxyAuthorization(in: content(proxyFile)))
    }

    private func proxyAuthorization(in content: Secret?) throws(TLSFileContents.FileError) -> Secret? {
        guard let proxyFile, let content else { return nil }
        do throws(SecretFile.ReadError) {
            return try ProxyCredential.value(of: content)
        } catch {
            throw .init(error.message(path: proxyFile), path: proxyFile)
        }
    }

    /// When the first certificate of the client's chain ends; nil: there is no chain.
    func certificateExpiresAt(in read: TLSFileContents) -> WallTime? {
        guard let chain = certificateFile.flatMap({ read.byPath[$0] }) else { return nil }
        let end = chain.withBytes { bytes in
            Result { () throws(TLSFileError) in try TLSCertificates.read(bytes).expiresAt }
        }
        return try? end.get()
    }
}

/// Has identity calls trust the authorities, and show the certificates, that their files hold now.
///
/// The rules are those of a listener's files (`ListenerTLSWatches`): a change is used when no file has changed for a moment. Files that
/// do not fit are logged once, and the previous contents stay in use until they fit.
final class IdentityTLSWatches: Sendable {
    private struct State {
        /// By the name of the identity.
        var watches: [String: IdentityTLSWatch] = [:]
        var isStarted = false
    }

    private let state = Guarded(State())
    private let files: FileReader
    private let publication: FilePublication
    private let loop: EventLoop
    private let log: Logger

    /// - Parameter changes: of files.
    init(
        by publication: FilePublication, noticing changes: FileChangeMonitor = FileChangeMonitor(), on loop: EventLoop,
        log: Logger
    ) {
        files = .ofWholeFiles(bytesMax: TLSFileContents.bytesMax, noticing: changes)
        (self.publication, self.loop, self.log) = (publication, loop, log)
    }

    func start() {
        let watches = state.withLock { state in
            state.isStarted = true
            return state.watches
        }
        for watch in watches.values { watch.start(by: files) }
    }

    /// With what the watches have found in the same files later.
    func renewed(_ tls: IdentityTLS) -> IdentityTLS {
        tls.renewed(from: state.withLock(\.watches).values.map(\.contentsInUse))
    }

    static func log(_ warning: String, by log: Logger) {
        log.warning(
            "a certificate for an identity service is not valid",
            metadata: ["event": "identity.tls.warning", "reason": .string(warning)])
    }

    /// Follows these identities' files from here on. A service whose files hold something else than before gets it.
    func follow(_ tls: IdentityTLS, of services: [String: any IdentityClient]) {
        publication.turn { turn in
            let (former, tls) = (state.withLock { $0 }, renewed(tls))
            var watches: [String: IdentityTLSWatch] = [:]
            for (name, service) in services {
                guard let entry = tls.entries[name] else { continue }
                if let watch = former.watches[name], watch.isCurrent(entry, service) {
                    watches[name] = watch
                } else {
                    watches[name] = IdentityTLSWatch(name, entry, of: service, by: publication, on: loop, log: log)
                }
            }
            state.withLock { [watches] in $0.watches = watches }
            guard former.isStarted else { return }
            for (name, watch) in former.watches where watches[name] !== watch { watch.end(in: turn) }
            for (name, watch) in watches where former.watches[name] !== watch {
                watch.apply(in: turn)
                watch.start(by: files)
            }
        }
    }

    func stop() {
        files.stop()
        for watch in state.withLock(\.watches).values { watch.stop() }
    }

    /// The client certificates in use. From any thread.
    var certificates: [ProgramConditions.Certificate] {
        state.withLock(\.watches).sorted { $0.key < $1.key }.compactMap { name, watch in
            guard let file = watch.certificateFile, let end = watch.certificateExpiresAt else { return nil }
            return .init(owner: "identity \(name)", file: file, expiresAt: end)
        }
    }

    /// When the client certificates in use end, for `/metrics`. From any thread.
    var samples: [MetricSample] {
        state.withLock(\.watches).sorted { $0.key < $1.key }.compactMap { name, watch in
            watch.certificateExpiresAt.map { RequestPath.certificateSample("identity \(name)", $0) }
        }
    }
}

/// The files of one identity.
private final class IdentityTLSWatch: TLSFileGroupWatch, @unchecked Sendable {
    private let name: String
    /// As the files were read when this began.
    private let entry: IdentityTLS.Entry
    private let service: any IdentityClient
    private let log: Logger
    /// When the client's chain in use ends; nil: there is none.
    private let certificateEnd: Guarded<WallTime?>

    init(
        _ name: String, _ entry: IdentityTLS.Entry, of service: any IdentityClient, by publication: FilePublication,
        on loop: EventLoop, log: Logger
    ) {
        self.name = name
        self.entry = entry
        self.service = service
        self.log = log
        certificateEnd = Guarded(entry.files.certificateExpiresAt(in: entry.read))
        super.init(entry.files.paths, entry.read, by: publication, on: loop)
    }

    /// Whether the same service uses what was read now. From any thread.
    func isCurrent(_ entry: IdentityTLS.Entry, _ service: any IdentityClient) -> Bool {
        self.service === service && contentsInUse.byPath == entry.read.byPath
    }

    /// nil: no client certificate is configured.
    var certificateFile: String? { entry.files.certificateFile }

    /// When the client's chain in use ends; nil: there is none. From any thread.
    var certificateExpiresAt: WallTime? { certificateEnd.withLock { $0 } }

    /// The service uses what the files held when this began.
    func apply(in _: borrowing FilePublication.Turn) { service.replaceTLS(entry.contents) }

    override func use(
        _ contents: TLSFileContents, changed: Set<String>, in turn: borrowing FilePublication.Turn
    ) throws(TLSFileContents.FileError) -> [String] {
        service.replaceTLS(try entry.files.contents(from: contents))
        let end = entry.files.certificateExpiresAt(in: contents)
        certificateEnd.withLock { $0 = end }
        log.notice(
            "an identity uses its changed TLS files from now on",
            metadata: ["event": "identity.tls.reloaded", "identity": .string(name)])
        for (_, message) in entry.files.warnings(in: contents) {
            IdentityTLSWatches.log("identities.\(name): \(message)", by: log)
        }
        return entry.files.paths
    }

    override func logFailure(_ reason: String) {
        log.error(
            "an identity's changed TLS files cannot be used: the previous ones stay in use",
            metadata: ["event": "identity.tls.failed", "identity": .string(name), "reason": .string(reason)])
    }
}
