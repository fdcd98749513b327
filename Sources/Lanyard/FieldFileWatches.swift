import LanyardConfiguration
import LanyardFoundations
import LanyardIdentity
import LanyardRequestPath
import LanyardSettings
import Logging

/// A file of `set_headers`, with the first field that it is for.
struct FieldFile: Equatable, Sendable {
    let path: String
    /// The index and the name of the route.
    let index: Int
    let route: String
    let field: String
}

extension Configuration {
    /// Each file once, in the order of the routes.
    var fieldFiles: [FieldFile] {
        var known: Set<String> = []
        return routes.enumerated().flatMap { index, route in
            route.route.setHeaders.compactMap { field in
                guard let path = field.file, known.insert(path).inserted else { return nil }
                return FieldFile(path: path, index: index, route: route.route.name, field: field.name)
            }
        }
    }
}

/// Has requests carry the fields of `set_headers` as their files say.
///
/// Each file has one watch, however many routes name it. It follows the file as that of a `static` token is followed
/// (`RenewedSecretFile`): what is empty, cut or missing is probably being written, and the former value is sent for a while.
final class FieldFileWatches: Sendable {
    private let path: RequestPath
    private let publication: FilePublication
    private let files: FileReader
    private let loop: EventLoop
    private let log: Logger
    /// By the paths of the files.
    private let watches: Guarded<[String: FieldFileWatch]>

    /// Reads nothing and starts nothing yet.
    ///
    /// - Parameter path: gets each value as soon as it is read.
    init(
        _ used: [FieldFile], for path: RequestPath, by publication: FilePublication, reading files: FileReader,
        on loop: EventLoop, log: Logger
    ) {
        (self.path, self.publication, self.files, self.loop, self.log) = (path, publication, files, loop, log)
        watches = Guarded([:])
        let made = used.map { ($0.path, makeWatch($0)) }
        watches.withLock { $0 = Dictionary(uniqueKeysWithValues: made) }
    }

    private func makeWatch(_ file: FieldFile) -> FieldFileWatch {
        FieldFileWatch(file, for: path, by: publication, reading: files, on: loop, log: log)
    }

    /// Watches the files of another configuration from here on. A new watch reports the present content first; a file that stays keeps
    /// its watch. In the turn that hands the routes over.
    func follow(_ used: [FieldFile], in turn: borrowing FilePublication.Turn) {
        let former = watches.withLock { $0 }
        var watches: [String: FieldFileWatch] = [:]
        for file in used {
            if let kept = former[file.path] {
                kept.rename(file)
                watches[file.path] = kept
            } else {
                let watch = makeWatch(file)
                watches[file.path] = watch
                watch.start()
            }
        }
        for (path, watch) in former where watches[path] == nil { watch.end(in: turn) }
        self.watches.withLock { [watches] in $0 = watches }
    }

    /// The values in the files that the running configuration does not name, by path. Blocks as long as the disk does.
    ///
    /// - Throws: a file that cannot be used, with the remedy.
    static func read(
        _ configuration: Configuration, changedFrom running: Configuration
    ) throws(ConfiguredFileError) -> [String: Secret] {
        let known = Set(running.fieldFiles.map(\.path))
        var found: [String: Secret] = [:]
        for file in configuration.fieldFiles where !known.contains(file.path) {
            do throws(SecretFile.ReadError) {
                found[file.path] = try value(of: file)
            } catch {
                throw .init(.route(file.index), path: file.path, error.message(path: file.path))
            }
        }
        return found
    }

    /// The values in all files that can be used. At the start, before the first thread: routes must not refuse requests only because a file
    /// has not been read yet.
    static func readAtStart(_ configuration: Configuration) -> [String: Secret] {
        var found: [String: Secret] = [:]
        for file in configuration.fieldFiles { found[file.path] = try? value(of: file) }
        return found
    }

    private static func value(of file: FieldFile) throws(SecretFile.ReadError) -> Secret {
        try FieldValueSecret.value(of: try SecretFile.read(file.path).secret, as: .line)
    }

    func start() { for watch in watches.withLock({ $0 }).values { watch.start() } }

    func stop() { for watch in watches.withLock({ $0 }).values { watch.stop() } }
}

/// One file of `set_headers`, until a reload ends it.
private final class FieldFileWatch: Sendable {
    private struct Use {
        var file: FieldFile
        /// No route names the file any more. Changed in a turn of the publication.
        var isEnded = false
    }

    private let path: RequestPath
    private let publication: FilePublication
    private let log: Logger
    private let source: RenewedSecretFile
    private let use: Guarded<Use>

    init(
        _ file: FieldFile, for path: RequestPath, by publication: FilePublication, reading files: FileReader,
        on loop: EventLoop, log: Logger
    ) {
        (self.path, self.publication, self.log) = (path, publication, log)
        source = RenewedSecretFile(file.path, as: .line, by: files, on: loop)
        use = Guarded(Use(file: file))
    }

    /// Begins to watch. Call once.
    func start() { source.start { [weak self] in self?.publish($0) } }

    func stop() { source.stop() }

    /// Another field is the first one that the file is for.
    func rename(_ file: FieldFile) { use.withLock { $0.file = file } }

    /// Publishes nothing from here on.
    func end(in _: borrowing FilePublication.Turn) {
        use.withLock { $0.isEnded = true }
        stop()
    }

    private func publish(_ outcome: RenewedSecretFile.Outcome) {
        publication.turn { _ in
            let use = use.withLock { $0 }
            guard !use.isEnded else { return }
            switch outcome {
            case .secret(let value): path.setFieldValue(value, ofFile: use.file.path)
            case .kept(let error):
                log.warning(
                    "the file of a field for the upstream cannot be used for now: the former value is sent",
                    metadata: [
                        "event": "upstream.field_file.kept", "route": .string(use.file.route),
                        "field": .string(use.file.field),
                        "reason": .string(
                            error.message(path: use.file.path) + "; " + RenewedSecretFile.keptMessage(of: "value")),
                    ])
            case .none(let error):
                path.setFieldValue(nil, ofFile: use.file.path)
                log.error(
                    "the file of a field for the upstream cannot be used: requests of its routes are refused",
                    metadata: [
                        "event": "upstream.field_file.failed", "route": .string(use.file.route),
                        "field": .string(use.file.field), "reason": .string(error.message(path: use.file.path)),
                    ])
            }
        }
    }
}

/// The watches of what the request path checks and sends beside tokens: capabilities, and fields of `set_headers`.
struct RequestSecretWatches: Sendable {
    let capabilities: CapabilityWatches
    let fields: FieldFileWatches

    func start() {
        capabilities.start()
        fields.start()
    }

    func stop() {
        capabilities.stop()
        fields.stop()
    }
}

extension RequestSecretWatches {
    /// Reads nothing and starts nothing yet.
    init(
        _ plan: RequestPathReload.Plan, for path: RequestPath, by publication: FilePublication,
        reading readers: ProgramFileReaders, on loop: EventLoop, log: Logger
    ) {
        capabilities = CapabilityWatches(
            plan.capabilityPlaces, for: path, by: publication, reading: readers.capabilities, on: loop, log: log)
        fields = FieldFileWatches(
            plan.fieldFiles, for: path, by: publication, reading: readers.fields, on: loop, log: log)
    }
}
