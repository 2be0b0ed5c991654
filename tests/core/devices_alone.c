int cmd_devices(int argc, char **argv);

int main(int argc, char **argv)
{
    return cmd_devices(argc, argv);
}
