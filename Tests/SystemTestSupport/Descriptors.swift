import Glibc

/// How many descriptors this process and those that it starts may have open.
enum Descriptors {
    /// Raises the limit if it is lower.
    ///
    /// - Returns: false if the system does not allow it.
    static func raise(to wanted: Int) -> Bool {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return false }
        let number = rlim_t(wanted)
        limit.rlim_cur = max(limit.rlim_cur, number)
        // Beyond the hard limit only root comes.
        limit.rlim_max = max(limit.rlim_max, number)
        return setrlimit(resource, &limit) == 0
    }
}
