import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// The TLS of all listeners at the start: what their files have made.
package struct ListenerTLS: Sendable {
    /// One for each listener; nil: its clients speak plain HTTP.
    private(set) var files: [ListenerTLSFiles?]
    private(set) var contexts: [TLSServerContext?]
    /// Of each listener with TLS.
    private(set) var contents: [TLSFileContents?]
    /// Certificates that clients will refuse. An expired one does not prevent the start: after a reboot other listeners and the clients
    /// that do not verify would be cut off, too.
    package let warnings: [ConfiguredFileWarning]

    /// Reads the files. Blocks as long as the disk does.
    ///
    /// - Throws: the first finding, with its listener.
    package init(_ listeners: [ListenerSettings]) throws(ConfiguredFileError) {
        var (files, contexts, contents) = ([ListenerTLSFiles?](), [TLSServerContext?](), [TLSFileContents?]())
        var warnings: [ConfiguredFileWarning] = []
        for (index, listener) in listeners.enumerated() {
            let own = listener.tls.map(ListenerTLSFiles.init)
            do throws(TLSFileContents.FileError) {
                let read = try own.map { files throws(TLSFileContents.FileError) in
                    try TLSFileContents(reading: files.paths)
                }
                var context: TLSServerContext?
                if let own, let read { context = try own.context(from: read) }
                if let own, let read {
                    for (path, message) in own.warnings(in: read) {
                        warnings.append(.init(listener.owner(at: index), path: path, message))
                    }
                }
                files.append(own)
                contents.append(read)
                contexts.append(context)
            } catch {
                throw .init(listener.owner(at: index), path: error.path, error.message)
            }
        }
        (self.files, self.contexts, self.contents, self.warnings) = (files, contexts, contents, warnings)
    }

    /// With the ticket keys of listeners that keep their files.
    func keepingTickets(of former: [ListenerTLSFiles?]) -> ListenerTLS {
        var kept = self
        for (index, former) in zip(files.indices, former) {
            guard let former, let contents = contents[index], let files = files[index]?.keepingTickets(of: former),
                let context = try? files.context(from: contents)
            else { continue }
            (kept.files[index], kept.contexts[index]) = (files, context)
        }
        return kept
    }

    /// With what others have found in the same files later.
    func renewed(from others: [TLSFileContents]) -> ListenerTLS {
        var renewed = self
        for (index, own) in files.enumerated() {
            guard let own, var contents = contents[index], !contents.renew(from: others).isEmpty,
                let context = try? own.context(from: contents)
            else { continue }
            (renewed.contents[index], renewed.contexts[index]) = (contents, context)
        }
        return renewed
    }
}

/// Has listeners show the certificates, and trust the authorities, that their files hold now.
///
/// A certificate and its key are two files that change one after the other. So a change is used when no file has changed for a moment.
/// Files that cannot be used together are logged once, and the previous context stays until they fit.
final class ListenerTLSWatches: Sendable {
    private struct State {
        var listeners: [ListenerSettings]
        /// One for each listener; nil: its clients speak plain HTTP.
        var watches: [ListenerTLSWatch?]
    }

    private let state: Guarded<State>
    private let files: FileReader
    private let makeWatch: @Sendable (ListenerTLS, [ListenerSettings], Int) -> ListenerTLSWatch?

    /// - Parameters:
    ///   - path: gets the new contexts.
    ///   - changes: of files.
    init(
        _ tls: ListenerTLS, _ listeners: [ListenerSettings], for path: RequestPath, by publication: FilePublication,
        noticing changes: FileChangeMonitor = FileChangeMonitor(), on loop: EventLoop, log: Logger
    ) {
        files = .ofWholeFiles(bytesMax: TLSFileContents.bytesMax, noticing: changes)
        makeWatch = { tls, listeners, index in
            guard let files = tls.files[index], let contents = tls.contents[index] else { return nil }
            return ListenerTLSWatch(
                index, "\(listeners[index].address)", files, contents, for: path, by: publication, on: loop, log: log)
        }
        state = Guarded(State(listeners: listeners, watches: []))
        let watches = listeners.indices.map { makeWatch(tls, listeners, $0) }
        state.withLock { $0.watches = watches }
    }

    func start() { for watch in state.withLock(\.watches) { watch?.start(by: files) } }

    /// What the listeners use. From any thread.
    var contentsInUse: [TLSFileContents] { state.withLock(\.watches).compactMap { $0?.contentsInUse } }

    /// The file of each listener's chain; nil: its clients speak plain HTTP. From any thread.
    var certificateFiles: [String?] { state.withLock(\.listeners).map { $0.tls?.certificateFile } }

    static func log(_ warning: String, by log: Logger) {
        log.warning(
            "a certificate of a listener is not valid",
            metadata: ["event": "listener.tls.warning", "reason": .string(warning)])
    }

    /// The files of each listener; nil: its clients speak plain HTTP. From any thread.
    var filesInUse: [ListenerTLSFiles?] { state.withLock(\.watches).map { $0?.files } }

    /// The contexts of listeners whose `tls` or whose files differ from what is in use, by listener.
    func changes(_ tls: ListenerTLS, _ listeners: [ListenerSettings]) -> [Int: TLSServerContext] {
        let former = state.withLock { $0 }
        var changed: [Int: TLSServerContext] = [:]
        for index in listeners.indices {
            guard
                listeners[index].tls != former.listeners[index].tls
                    || tls.contents[index]?.byPath != former.watches[index]?.contentsInUse.byPath
            else { continue }
            changed[index] = tls.contexts[index]
        }
        return changed
    }

    /// Follows the files of a new configuration from here on. In the turn that hands the contexts over.
    ///
    /// - Parameter changed: the listeners that have other files than before.
    func follow(
        _ tls: ListenerTLS, _ listeners: [ListenerSettings], _ changed: [Int: TLSServerContext],
        in turn: borrowing FilePublication.Turn
    ) {
        var watches = state.withLock(\.watches)
        for index in changed.keys {
            watches[index]?.end(in: turn)
            watches[index] = makeWatch(tls, listeners, index)
            watches[index]?.start(by: files)
        }
        state.withLock { [watches] in $0 = State(listeners: listeners, watches: watches) }
    }

    func stop() {
        files.stop()
        for watch in state.withLock(\.watches) { watch?.stop() }
    }
}

/// The files of one listener.
private final class ListenerTLSWatch: TLSFileGroupWatch, @unchecked Sendable {
    private let index: Int
    private let address: String
    let files: ListenerTLSFiles
    private let path: RequestPath
    private let log: Logger

    init(
        _ index: Int, _ address: String, _ files: ListenerTLSFiles, _ contents: TLSFileContents, for path: RequestPath,
        by publication: FilePublication, on loop: EventLoop, log: Logger
    ) {
        self.index = index
        self.address = address
        self.files = files
        self.path = path
        self.log = log
        super.init(files.paths, contents, by: publication, on: loop)
    }

    override func use(
        _ contents: TLSFileContents, changed: Set<String>, in turn: borrowing FilePublication.Turn
    ) throws(TLSFileContents.FileError) -> [String] {
        let context = try files.context(from: contents)
        path.setTLS(context, ofListener: index)
        log.notice(
            "a listener uses its changed TLS files from now on",
            metadata: ["event": "listener.tls.reloaded", "address": .string(address)])
        for (_, message) in files.warnings(in: contents) {
            ListenerTLSWatches.log("\(address): \(message)", by: log)
        }
        return files.paths
    }

    override func logFailure(_ reason: String) {
        log.error(
            "a listener's changed TLS files cannot be used: the previous ones stay in use",
            metadata: ["event": "listener.tls.failed", "address": .string(address), "reason": .string(reason)])
    }
}
