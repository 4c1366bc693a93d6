//! Every attack, and what each tier promises.

use crate::{
    attack::{
        Attack,
        Expected::{self, Harmless, Refused, Residual, Stopped, Told, Works},
        Staging::{CutOff, Init},
    },
    payload::{excess, files, kernel, leftovers, network, processes, resources, sockets, tree},
    setting::Setting::{self, FirstLandlock, Landlock, Namespaces, Uid, UidAlone},
};

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Attack> {
    [FILES, TREES, PROCESSES, LEFTOVERS, SOCKETS, NETWORK, KERNEL, RESOURCES, EXCESSES]
        .into_iter()
        .flatten()
}

/// What users of their own do not stop without Landlock.
const ALONE: &[(Setting, Expected)] = &[(UidAlone, Residual)];

/// And with a Landlock that knows neither ports nor scopes.
const FILES_ONLY: &[(Setting, Expected)] = &[(UidAlone, Residual), (FirstLandlock, Residual)];

const FILES: &[Attack] = &[
    Attack::new("fs_read_other_workspace", files::read_other, Refused),
    Attack::new("fs_write_other_workspace", files::write_other, Refused),
    Attack::new("fs_list_other_workspace", files::list_other, Refused),
    Attack::new("fs_enter_other_workspace", files::enter_other, Refused),
    Attack::new("fs_list_work_root", files::list_root, Refused),
    Attack::new("fs_list_plugins", files::list_plugins, Refused).except(ALONE),
    Attack::new("fs_list_sockets", files::list_sockets, Refused).except(ALONE),
    Attack::new("fs_symlink_read", files::follow_link, Refused).except(ALONE),
    Attack::new("fs_hardlink_victim", files::hard_link, Refused),
    Attack::new("fs_rename_workspace", files::rename_workspace, Refused),
    Attack::new("fs_replace_workspace_by_symlink", files::replace_by_link, Harmless),
    Attack::new("fs_read_root_secret", files::read_root_secret, Refused),
    Attack::new("fs_read_own_secret", files::read_own_secret, Refused),
    Attack::new("fs_read_world_secret", files::read_world_secret, Refused).except(ALONE),
    Attack::new("fs_read_token", files::read_token, Refused).except(ALONE),
    Attack::new("fs_read_shadow", files::read_shadow, Refused),
    Attack::new("fs_write_usr", files::write_usr, Refused),
    Attack::new("fs_write_definition", files::write_definition, Refused),
    Attack::new("fs_truncate_victim", files::truncate, Refused),
    Attack::new("fs_remove_victim", files::remove, Refused),
    // With namespaces these directories are the request's own.
    Attack::new("fs_drop_in_shared", files::drop_files, Refused)
        .except(&[(Namespaces, Harmless), (UidAlone, Residual)]),
    Attack::new("fs_drop_outside", files::drop_outside, Refused).except(ALONE),
    Attack::new("fs_mknod", files::make_device, Refused),
    Attack::new("fs_open_device", files::open_device, Refused).except(ALONE),
    Attack::new("fs_run_setuid", files::run_setuid, Refused),
    Attack::new("fs_open_by_handle", files::open_by_handle, Refused),
    Attack::new("fs_immutable", files::immutable, Refused),
    Attack::new("fs_chown", files::change_owner, Refused),
    // Landlock has no say in these, and there it is one user's own file.
    Attack::new("fs_chmod_victim", files::change_mode, Refused).except(&[(Landlock, Residual)]),
    Attack::new("fs_utime_victim", files::change_time, Refused).except(&[(Landlock, Residual)]),
    Attack::new("fs_xattr_victim", files::change_attribute, Refused)
        .except(&[(Landlock, Residual)]),
    Attack::new("fs_stat_victim", files::look_at, Refused).except(&[(Landlock, Residual)]),
    Attack::new("fs_stat_secret", files::look_at_secret, Residual).except(&[(Namespaces, Refused)]),
    Attack::new("fs_watch_workspaces", files::watch, Refused),
    Attack::new("fs_fifo_trap", files::fifo_trap, Harmless),
];

const TREES: &[Attack] = &[
    Attack::new("tree_without_modes", tree::without_modes, Harmless),
    Attack::new("tree_deep", tree::deep, Harmless),
    Attack::new("tree_many_files", tree::many, Harmless),
    Attack::new("tree_weird_names", tree::weird_names, Harmless),
    Attack::new("tree_wiped", tree::wipe, Harmless),
    Attack::new("tree_links_outside", tree::links_outside, Harmless),
    Attack::new("tree_sparse_file", tree::sparse, Stopped),
];

const PROCESSES: &[Attack] = &[
    Attack::new("pr_kill_all", processes::kill_all, Harmless),
    Attack::new("pr_stop_all", processes::stop_all, Harmless),
    Attack::new("pr_signal", processes::signal, Refused),
    Attack::new("pr_signal_by_input", processes::signal_by_input, Refused),
    Attack::new("pr_ptrace", processes::trace, Refused),
    Attack::new("pr_read_memory", processes::read_memory, Refused),
    Attack::new("pr_read_environ", processes::read_environment, Refused),
    Attack::new("pr_read_cmdline", processes::read_command_line, Refused).except(ALONE),
    Attack::new("pr_list", processes::list, Refused).except(ALONE),
    Attack::new("pr_enter", processes::enter, Refused),
    Attack::new("pr_take_descriptor", processes::take_descriptor, Refused),
    Attack::new("pr_limit", processes::limit, Refused),
    Attack::new("pr_slow_down", processes::slow_down, Refused),
    Attack::new("pr_slow_down_user", processes::slow_down_user, Refused),
    Attack::new("pr_descriptors", processes::inherited_descriptors, Refused),
    Attack::new("pr_variables", processes::inherited_variables, Refused),
    Attack::new("pr_other_variable", processes::other_variable, Refused),
    Attack::new("pr_stdin", processes::standard_input, Refused),
    Attack::new("pr_signal_mask", processes::inherited_signals, Refused),
    Attack::new("pr_core_dump", processes::core, Refused),
    Attack::new("pr_raise_limits", processes::raise_limits, Refused),
    Attack::new("pr_become_other", processes::become_other, Refused),
    Attack::new("pr_capabilities", processes::capabilities, Refused),
    Attack::new("pr_spare_from_oom", processes::spare_self, Refused),
    Attack::new("pr_subreaper", processes::take_in_orphans, Refused),
    Attack::new("pr_loosen", processes::loosen, Refused),
    Attack::new("pr_close_output", processes::close_output, Harmless),
    Attack::new("pr_run_from_memory", processes::run_from_memory, Harmless),
];

const LEFTOVERS: &[Attack] = &[
    Attack::new("left_daemon", leftovers::daemon, Works),
    Attack::new("left_daemon_with_output", leftovers::daemon_with_output, Works),
    Attack::new("left_daemon_of_init", leftovers::daemon, Works).staged(Init),
    Attack::new("left_killer", leftovers::killer, Harmless),
    Attack::new("left_killer_of_init", leftovers::killer, Harmless).staged(Init),
    Attack::new("left_stopper", leftovers::stopper, Harmless),
    Attack::new("left_lone_stopper", leftovers::lone_stopper, Harmless),
    Attack::new("left_stopper_of_init", leftovers::lone_stopper, Works).staged(Init),
    Attack::new("left_stopped", leftovers::stop_self, Stopped).staged(CutOff),
    Attack::new("left_deaf", leftovers::ignore_end, Stopped).staged(CutOff),
    Attack::new("left_zombies", leftovers::zombies, Works),
    Attack::new("left_1000_orphans", leftovers::many_orphans, Works),
    Attack::new("left_fork_bomb", leftovers::fork_bomb, Harmless),
    Attack::new("left_fork_relay", leftovers::relay, Works),
    Attack::new("left_fork_relay_of_init", leftovers::relay, Works).staged(Init),
];

const SOCKETS: &[Attack] = &[
    Attack::new("ip_plugin_socket", sockets::plugin_socket, Refused),
    // Until Linux 7.1 a path's mode is all that guards a socket.
    Attack::new("ip_open_socket", sockets::open_socket, Refused).except(&[(Uid, Residual)]),
    Attack::new("ip_closed_socket", sockets::closed_socket, Refused),
    Attack::new("ip_hidden_socket", sockets::hidden_socket, Refused),
    Attack::new("ip_victim_socket", sockets::victim_socket, Refused),
    Attack::new("ip_abstract_socket", sockets::abstract_socket, Refused).except(FILES_ONLY),
    Attack::new("ip_datagram", sockets::datagram, Refused).except(&[(Uid, Residual)]),
    Attack::new("ip_datagram_pair", sockets::datagram_pair, Refused).except(&[(Uid, Residual)]),
    Attack::new("ip_replace_socket", sockets::replace_socket, Refused),
    Attack::new("ip_bind_in_shared", sockets::bind_shared, Refused).except(ALONE),
    Attack::new("ip_bind_own", sockets::bind_own, Works).except(&[(Landlock, Refused)]),
    Attack::new("ip_pair", sockets::connected_pair, Works),
    Attack::new("ip_shm", sockets::shared_memory, Refused),
    Attack::new("ip_sem", sockets::semaphores, Refused),
    Attack::new("ip_msg", sockets::messages, Refused),
    Attack::new("ip_mq", sockets::queues, Refused),
    Attack::new("ip_keys", sockets::keys, Refused),
];

const NETWORK: &[Attack] = &[
    Attack::new("nt_metrics", network::metrics, Refused).except(FILES_ONLY),
    Attack::new("nt_closed_port", network::closed, Refused).except(FILES_ONLY),
    Attack::new("nt_allowed_port", network::allowed, Works),
    Attack::new("nt_mptcp", network::multipath, Refused),
    Attack::new("nt_fast_open", network::fast_open, Refused),
    Attack::new("nt_fast_open_option", network::fast_open_option, Refused).except(FILES_ONLY),
    Attack::new("nt_bind", network::bind, Refused).except(FILES_ONLY),
    Attack::new("nt_listen_unbound", network::listen_unbound, Residual),
    Attack::new("nt_udp", network::udp, Residual),
    Attack::new("nt_raw", network::raw_sockets, Refused),
    Attack::new("nt_families", network::families, Refused),
    Attack::new("nt_netlink", network::netlink, Refused),
    Attack::new("nt_interfaces", network::interfaces, Works),
    Attack::new("nt_protocols", network::protocols, Refused),
];

const KERNEL: &[Attack] = &[
    Attack::new("k_settings", kernel::settings, Refused),
    Attack::new("k_unshare", kernel::namespaces, Refused),
    Attack::new("k_clone_namespaces", kernel::clone_namespaces, Refused),
    Attack::new("k_mounts", kernel::mounts, Refused),
    Attack::new("k_programs_in_kernel", kernel::programs_in_kernel, Refused),
    Attack::new("k_machine", kernel::machine, Refused),
    Attack::new("k_oddities", kernel::oddities, Refused),
    Attack::new("k_terminal", kernel::terminal, Refused),
    Attack::new("k_other_numbers", kernel::other_numbers, Refused),
];

const RESOURCES: &[Attack] = &[
    Attack::new("rs_memory", resources::memory, Refused),
    Attack::new("rs_file", resources::file, Stopped),
    Attack::new("rs_memory_file", resources::memory_file, Stopped),
    Attack::new("rs_processor", resources::processor, Stopped).staged(CutOff),
    Attack::new("rs_output", resources::output, Stopped),
    Attack::new("rs_errors", resources::errors, Works),
    Attack::new("rs_descriptors", resources::descriptors, Refused),
    Attack::new("rs_disk", resources::disk, Harmless),
    Attack::new("rs_deleted_file", resources::deleted_file, Harmless),
];

const MEMORY: Expected = Told("--max-memory, or give the plugin a spec.limits.memory");
const DISK: Expected = Told("--max-disk-bytes, or give the plugin a spec.limits.disk");
const ENTRIES: Expected = Told("--max-disk-files, or give the plugin a spec.limits.files");
const UNMEASURED: Expected = Told("could not be measured");

/// More than a request may take, of which no process and no file has too much.
const EXCESSES: &[Attack] = &[
    Attack::new("ex_none", excess::none, Works),
    Attack::new("ex_processes", excess::processes, MEMORY),
    Attack::new("ex_processes_of_init", excess::processes, MEMORY).staged(Init),
    Attack::new("ex_shared_memory", excess::shared_memory, MEMORY),
    Attack::new("ex_memory_files", excess::memory_files, MEMORY),
    Attack::new("ex_first_thread_gone", excess::first_thread_gone, MEMORY),
    Attack::new("ex_memory_and_kill", excess::memory_and_kill, MEMORY),
    Attack::new("ex_memory_and_stop", excess::memory_and_stop, MEMORY),
    Attack::new("ex_left_memory", excess::left_memory, MEMORY),
    Attack::new("ex_files", excess::files, DISK),
    Attack::new("ex_files_elsewhere", excess::files_elsewhere, DISK),
    Attack::new("ex_files_and_kill", excess::files_and_kill, DISK),
    Attack::new("ex_removed_files", excess::removed_files, DISK),
    Attack::new("ex_closed_directory", excess::closed_directory, DISK),
    Attack::new("ex_undumpable", excess::undumpable, DISK),
    Attack::new("ex_entries", excess::entries, ENTRIES),
    Attack::new("ex_deep_entries", excess::deep_entries, ENTRIES),
    Attack::new("ex_mapped_files", excess::mapped_files, UNMEASURED),
    Attack::new("ex_files_in_flight", excess::files_in_flight, UNMEASURED),
    Attack::new("ex_unreadable_program", excess::unreadable_program, UNMEASURED),
];
