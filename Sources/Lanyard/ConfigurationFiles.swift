import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import Logging

/// What the files of a configuration hold, for the start and for each reload (architecture-control.md 7.9).
struct ConfigurationFiles: Sendable {
    let requestPath: RequestPathFiles
    let identityTLS: IdentityTLS

    /// Reads the files. Blocks as long as the disk does.
    ///
    /// - Parameter running: the configuration in use; nil: none is, at the start.
    init(_ configuration: Configuration, running: Configuration?) throws(ConfiguredFileError) {
        requestPath = try RequestPathFiles(configuration, running: running)
        identityTLS = try IdentityTLS(configuration.identities)
    }

    /// Certificates that clients, upstreams or identity services will refuse.
    func logWarnings(to log: Logger) {
        for warning in requestPath.listenerTLS.warnings {
            ListenerTLSWatches.log("\(warning.owner): \(warning.message)", by: log)
        }
        for warning in requestPath.upstreamTLS.warnings {
            UpstreamTLSWatches.log("\(warning.owner): \(warning.message)", by: log)
        }
        for warning in identityTLS.warnings {
            IdentityTLSWatches.log("\(warning.owner): \(warning.message)", by: log)
        }
    }
}

/// What the request path needs of a configuration's files.
struct RequestPathFiles: Sendable {
    let upstreamTLS: UpstreamTLS
    let listenerTLS: ListenerTLS
    /// Of places that have another file than before (`capabilityPlaces`); nil: none is asked for there any more.
    let capabilities: [Int: ListenerCapability?]
    /// Of the files of `set_headers` that the running configuration does not name, by path.
    let fieldSecrets: [String: Secret]

    /// Reads the files. Blocks as long as the disk does.
    ///
    /// - Parameter running: the configuration in use; nil: none is, at the start. Then a capability that cannot be read is no error: its
    ///   listener admits no caller until it can. So it is with a file of `set_headers` and the requests of its routes.
    init(_ configuration: Configuration, running: Configuration?) throws(ConfiguredFileError) {
        upstreamTLS = try UpstreamTLS(configuration)
        listenerTLS = try ListenerTLS(configuration.listeners)
        if let running {
            capabilities = try CapabilityWatches.read(
                configuration.listeners.capabilityPlaces, changedFrom: running.listeners.capabilityPlaces)
            fieldSecrets = try FieldFileWatches.read(configuration, changedFrom: running)
        } else {
            capabilities = CapabilityWatches.readAtStart(configuration.listeners.capabilityPlaces)
            fieldSecrets = FieldFileWatches.readAtStart(configuration)
        }
    }

    /// What each of so many places begins with.
    func secrets(ofPlaces count: Int) -> [Secret?] { (0..<count).map { capabilities[$0]??.secret } }
}
