import LanyardConfiguration
import LanyardFoundations
import LanyardIdentity
import LanyardSettings

/// libcurl, which is loaded only for identities that make calls (architecture-control.md 7.8).
package enum IdentityLibrary {
    /// Loads libcurl if one of the identities makes calls. Blocks as long as the disk does.
    ///
    /// - Throws: it cannot be loaded now; the error names the first such identity and the package. The next call tries again.
    package static func load(for identities: [IdentitySettings]) throws(ConfiguredFileError) {
        guard let caller = identities.first(where: \.makesCalls), var reason = CurlLibrary.load() else { return }
        if reason.contains(shortage) {
            // Idle upstream connections give up their descriptors for the files of the library.
            DescriptorShortage.shared.releaseAndWait()
            guard let second = CurlLibrary.load() else { return }
            reason = second
        }
        let remedy =
            reason.contains(shortage)
            ? "raise the limit of open files (LimitNOFILE)"
            : "install or repair the package of libcurl 4 (Debian 12: libcurl4, Debian 13 and Ubuntu: libcurl4t64)"
        throw ConfiguredFileError(
            .identity(caller.name), path: nil,
            "its calls need libcurl, which cannot be loaded: \(reason); \(remedy)")
    }

    /// The loader's words for a process or a machine that has no descriptor left.
    private static let shortage = "Too many open files"
}

extension IdentitySettings {
    /// It calls an identity service. A static one reads files.
    fileprivate var makesCalls: Bool {
        switch kind {
        case .staticToken: false
        case .appServices, .oauth, .gitHubApp, .lanyard: true
        }
    }
}
