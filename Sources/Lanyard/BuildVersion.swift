import CBuildCommit

/// The version of this build, in `lanyard version`, `lanyard_build_info` and `/v1/status`.
package enum BuildVersion {
    /// Semantic version: the one that was given to the build, else the tree's.
    package static let number = given.isEmpty ? tree : given

    /// What deploy/package reads.
    private static let tree = "0.1.0"

    private static let given = String(cString: lanyard_build_version())
}
