import LanyardAdmin
import LanyardConfiguration
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings

/// Certificates that end soon, as `lanyard check` judges them. `run` names them in its status, and logs them before their end.
package enum CertificateCheck {
    private typealias Files = (owner: ConfiguredFileError.Owner, chain: String?, authorities: String?)

    /// One for each file whose certificates end within 14 days, in the order of the configuration. Those that have ended are a finding of
    /// the TLS files themselves. Blocks as long as the disk does.
    package static func warnings(
        _ configuration: Configuration, at now: WallTime = .now
    ) -> [ConfiguredFileWarning] {
        let listeners = configuration.listeners.enumerated().map { index, listener -> Files in
            (listener.owner(at: index), listener.tls?.certificateFile, listener.tls?.clientCAFile)
        }
        let identities = configuration.identities.map { identity -> Files in
            (.identity(identity.name), identity.certificateFile, identity.caFile)
        }
        let routes = configuration.routes.enumerated().map { index, route -> Files in
            (.route(index), route.upstream.tls.certificateFile, route.upstream.tls.caFile)
        }
        return (listeners + identities + routes).flatMap { owner, chain, authorities in
            let paths = [chain, authorities].compactMap(\.self)
            guard !paths.isEmpty, let contents = try? TLSFileContents(reading: paths) else {
                return [] as [ConfiguredFileWarning]
            }
            return contents.endings(
                chain: chain, authorities: authorities, within: ProgramConditions.certificateNotice, at: now
            ).map { ConfiguredFileWarning(owner, path: $0.path, $0.message) }
        }
    }
}
