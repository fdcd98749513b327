import LanyardFoundations
import LanyardRequestPath
import LanyardSettings

/// When the client certificates towards identity services end, for `/metrics`.
///
/// libcurl reads the files itself for each connection, so the present content of a file counts. A file without a usable certificate has
/// no sample: the calls that need it fail, and their errors name it.
final class IdentityCertificateWatches: Sendable {
    private struct State {
        /// Those that have a client certificate.
        var identities: [(name: String, path: String)]
        /// By path.
        var watches: [String: FileWatch] = [:]
        /// By path.
        var ends: [String: WallTime] = [:]
    }

    private let state: Guarded<State>
    private let files = FileReader.ofWholeFiles(bytesMax: UpstreamTLSFiles.bytesMax)
    private let loop: EventLoop

    /// Reads nothing yet.
    init(_ identities: [IdentitySettings], on loop: EventLoop) {
        state = Guarded(State(identities: Self.withCertificate(identities)))
        self.loop = loop
    }

    private static func withCertificate(_ identities: [IdentitySettings]) -> [(name: String, path: String)] {
        identities.compactMap { identity in identity.certificateFile.map { (identity.name, $0) } }
    }

    func start() {
        state.withLock { state in
            for identity in state.identities where state.watches[identity.path] == nil {
                state.watches[identity.path] = startedWatch(identity.path)
            }
        }
    }

    /// Follows the files of these identities from here on.
    func apply(_ identities: [IdentitySettings]) {
        let present = Self.withCertificate(identities)
        state.withLock { state in
            state.identities = present
            for (path, watch) in state.watches where !present.contains(where: { $0.path == path }) {
                watch.stop()
                (state.watches[path], state.ends[path]) = (nil, nil)
            }
        }
        start()
    }

    func stop() {
        files.stop()
        for watch in state.withLock(\.watches).values { watch.stop() }
    }

    private func startedWatch(_ path: String) -> FileWatch {
        let watch = FileWatch(path, by: files, on: loop) { [weak self] in self?.receive($0, of: path) }
        watch.start()
        return watch
    }

    private func receive(_ outcome: FileWatch.Outcome, of path: String) {
        let end = try? outcome.get().secret.withBytes { bytes in
            Result { () throws(TLSFileError) in try TLSCertificates.read(bytes).expiresAt }
        }.get()
        state.withLock { state in if state.watches[path] != nil { state.ends[path] = end } }
    }

    /// From any thread.
    var samples: [MetricSample] {
        state.withLock { state in
            state.identities.compactMap { identity in
                state.ends[identity.path].map { RequestPath.certificateSample("identity \(identity.name)", $0) }
            }
        }
    }
}
